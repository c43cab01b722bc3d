#include "brigade/distribute/optimizer/gradients.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/distribute/optimizer/sum_of_replicas.h"

namespace brigade::distribute {

namespace {

std::string describe(const at::Tensor& tensor) {
  return base::str_cat(comm::shape_of(tensor), " on ", tensor.device());
}

[[noreturn]] void refuse(const variables::Variable& variable, const at::Tensor& gradient,
                         const at::Tensor& component) {
  throw Error(ErrorCode::kInvalidArgument, "The gradient of variable '", variable.name(), "' is ",
              describe(gradient), " and must be ", describe(component),
              ", as the variable is: reshape, convert or move what is assigned.");
}

void check_count(std::span<const variables::Variable> variables,
                 std::span<const at::Tensor> gradients) {
  if (gradients.size() == variables.size()) return;
  throw Error(ErrorCode::kInvalidArgument, "There are ", gradients.size(), " gradients for ",
              variables.size(), " variables; give one per variable, undefined if it has none.");
}

bool fits(const at::Tensor& gradient, const at::Tensor& component) {
  return gradient.scalar_type() == component.scalar_type() && gradient.sizes() == component.sizes();
}

/// For an unknown replica. (Components that a program converted are detected elsewhere.)
bool fits_any(const at::Tensor& gradient, const variables::Variable& variable) {
  for (int replica = 0; replica < variable.num_components(); ++replica) {
    if (fits(gradient, variable.component(replica))) return true;
  }
  return false;
}

void check_alike(const Gradients& first, const Gradients& other) {
  const bool same_variables =
      first.variables().data() == other.variables().data() && first.size() == other.size();
  check_argument(same_variables,
                 "average_gradients: the towers' gradients belong to different optimizers.");
  check_argument(first.step() == other.step(),
                 "average_gradients: one tower's gradients are of step ", first.step(),
                 " and another's of step ", other.step(), ".");
  check_gradients(other.variables(), other.values());
}

/// The mean gradient of one variable; undefined if no tower has one.
at::Tensor mean_of(const PerReplica<Gradients>& towers, std::size_t variable, c10::Device device) {
  std::vector<at::Tensor> gradients;  // [tower], undefined: none
  for (const Gradients& tower : towers.values()) {
    at::Tensor& gradient = gradients.emplace_back(tower[variable]);
    if (!gradient.defined()) continue;
    const bool stays = gradient.layout() == at::kStrided || comm::has_rows(gradient);
    gradient = (stays ? gradient.detach() : gradient.detach().to_dense()).to(device);
  }
  const auto present = std::ranges::count_if(gradients, &at::Tensor::defined);
  if (present == 0) return {};
  // A mean of half or bfloat16 is rounded once, after the division.
  const at::ScalarType dtype = std::ranges::find_if(gradients, &at::Tensor::defined)->scalar_type();
  for (at::Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = comm::to_accumulation_dtype(gradient);
  }
  return sum_of_replicas(gradients).div(static_cast<double>(present)).to(dtype);
}

}  // namespace

Gradients::Gradients(std::span<const variables::Variable> variables, std::vector<at::Tensor> values,
                     GradientState state, std::uint64_t step, StepLoss loss)
    : variables_(variables),
      values_(std::move(values)),
      state_(state),
      step_(step),
      loss_(std::move(loss)) {
  check_gradients(variables_, values_);
}

at::Tensor& Gradients::operator[](std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].name() == name) return values_[i];
    names.push_back(variables_[i].name());
  }
  throw Error(ErrorCode::kNotFound, "There is no gradient of a variable '", name,
              "'; this optimizer has ", base::join(names, ", "), ".");
}

void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients) {
  check_count(variables, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (!fits_any(gradients[i], variables[i]))
      refuse(variables[i], gradients[i], variables[i].component(0));
  }
}

void check_gradients(std::span<const variables::Variable> variables,
                     std::span<const at::Tensor> gradients, int replica) {
  check_count(variables, gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const at::Tensor& component = variables[i].component(replica);
    if (!fits(gradients[i], component) || gradients[i].device() != component.device())
      refuse(variables[i], gradients[i], component);
  }
}

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
