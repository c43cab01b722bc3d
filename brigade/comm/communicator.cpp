#include "brigade/comm/communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "brigade/base/strings.h"
#include "brigade/comm/small_collectives.h"

namespace brigade::comm {

namespace {

/// The `Work` of a collective that was complete when its call returned.
class CompletedWork final : public Work {
 public:
  void wait() override {}
};

}  // namespace

std::string_view to_string(ReduceOp op) {
  constexpr std::array<std::string_view, 4> kNames = {"sum", "mean", "max", "min"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view CollectiveCall::name() const {
  const auto number = static_cast<std::size_t>(kind);
  const auto variant = static_cast<std::size_t>(op);
  // The header of another process may have a kind that this program does not know.
  const bool is_known = number < kCollectives.size() && variant < traits().names.size();
  return is_known ? traits().names[variant] : "an unknown call";
}

std::optional<std::string> CollectiveCall::find_problem(int world_size) const {
  if (traits().has_root && (root < 0 || root >= world_size)) {
    return base::str_cat(name(), ": root ", root, " is not a rank; ranks are 0 to ", world_size - 1,
                         ".");
  }
  if (!traits().reduces || op != ReduceOp::kMean) return std::nullopt;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_floating_point()) continue;
    return base::str_cat(name(), ": the mean needs a floating tensor and got ", shape_of(tensor),
                         "; convert it, or use the sum.");
  }
  return std::nullopt;
}

std::vector<at::Tensor> Communicator::run(const CollectiveCall& call) {
  const at::NoGradGuard no_grad;
  return execute(call);
}

std::vector<at::Tensor> Communicator::sum_present(std::span<const at::Tensor> values,
                                                  std::span<const at::Tensor> like) {
  const at::NoGradGuard no_grad;
  std::vector<bool> present;
  for (const at::Tensor& value : values) present.push_back(value.defined());
  if (world_size() > 1)
    present = agree_on_present({.kind = Collective::kAllReduce, .tensors = like}, present);
  std::vector<at::Tensor> sums(values.size());
  std::vector<at::Tensor> sent;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!present[i]) continue;
    sums[i] = values[i].defined() ? values[i].detach().clone() : at::zeros_like(like[i]);
    sent.push_back(sums[i]);
  }
  if (world_size() > 1)
    execute({.kind = Collective::kAllReduce, .tensors = sent, .is_agreed = true});
  return sums;
}

std::vector<bool> Communicator::agree_on_present(const CollectiveCall&,
                                                 const std::vector<bool>& present) {
  return all_reduce_flags(*this, present);
}

std::unique_ptr<Work> Communicator::start(const CollectiveCall& call) {
  run(call);
  return std::make_unique<CompletedWork>();
}

std::string shape_of(const at::Tensor& tensor) {
  return base::str_cat(tensor.scalar_type(), tensor.sizes());
}

}  // namespace brigade::comm
