#include "brigade/distribute/strategies/average_gradients.h"

#include <ATen/core/grad_mode.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/distribute/optimizer/gradient_check.h"

namespace brigade::distribute {

namespace {

void check_alike(const Gradients& first, const Gradients& other) {
  const bool same_variables =
      first.variables().data() == other.variables().data() && first.size() == other.size();
  check_argument(same_variables,
                 "average_gradients: the towers' gradients belong to different optimizers.");
  check_argument(first.step() == other.step(),
                 base::str_cat("average_gradients: one tower's gradients are of step ",
                               first.step(), " and another's of step ", other.step(), "."));
  check_gradients(other.variables(), other.values());
}

/// The mean gradient of one variable; undefined if no tower has one.
at::Tensor mean_of(const PerReplica<Gradients>& towers, std::size_t variable, c10::Device device) {
  std::vector<at::Tensor> present;
  for (const Gradients& tower : towers.values()) {
    if (!tower[variable].defined()) continue;
    const at::Tensor gradient = tower[variable].detach();
    const bool strided = gradient.layout() == at::kStrided;
    present.push_back((strided ? gradient : gradient.to_dense()).to(device));
  }
  if (present.empty()) return {};
  return comm::combine_in_order(present, comm::ReduceOp::kMean);
}

}  // namespace

Gradients average_gradients(const PerReplica<Gradients>& towers) {
  const at::NoGradGuard no_grad;
  const Gradients& first = towers[0];
  for (const Gradients& tower : towers.values()) check_alike(first, tower);
  std::vector<at::Tensor> means;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto& storage = first.variable(i).storage();
    means.push_back(mean_of(towers, i, storage->master(0).device()));
  }
  return {first.variables(), std::move(means), GradientState::kAggregated, first.step()};
}

}  // namespace brigade::distribute
