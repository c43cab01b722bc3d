#include "brigade/distribute/optimizer/step_loss.h"

#include <ATen/ops/full.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::distribute {

namespace {

/// The part of this replica's mean in the mean over all examples; unset if it is not known.
std::optional<double> weight_of(const ReplicaContext& context, const Objective& objective,
                                LossScale scale) {
  if (!objective.loss.defined()) return 0.0;
  if (context.count == 1 || scale != LossScale::kMeanOverExamples) return 1.0;
  if (!objective.global_examples) return std::nullopt;
  return static_cast<double>(objective.local_examples) /
         static_cast<double>(*objective.global_examples);
}

}  // namespace

StepLoss::StepLoss(const ReplicaContext& context, const Objective& objective,
                   const at::Tensor& loss, LossScale scale, const at::Tensor& report)
    // As `detach`, without a dispatch.
    : local_((report.defined() ? report : loss).variable_data()),
      is_per_example_(!report.defined() && loss.dim() > 0),
      is_mean_(scale == LossScale::kMeanOverExamples),
      weight_(weight_of(context, objective, scale)) {}

at::ScalarType StepLoss::part_dtype() const {
  return comm::accumulation_dtype(local_.scalar_type());
}

at::Tensor StepLoss::part() const {
  check_state(local_.defined(),
              "These gradients have no loss: they were not computed by "
              "Optimizer::compute_gradients.");
  check_state(weight_.has_value(),
              "The loss is a mean and the replicas' numbers of examples are not known: they come "
              "with a batch of Strategy::distribute.");
  // -0.0 changes no sum. The mean of no examples would be NaN.
  if (*weight_ == 0.0) {
    return at::full(is_per_example_ ? at::IntArrayRef() : local_.sizes(), -0.0,
                    local_.options().dtype(part_dtype()));
  }
  at::Tensor own = local_;
  if (is_per_example_) own = is_mean_ ? own.mean() : comm::to_accumulation_dtype(own).sum();
  own = comm::to_accumulation_dtype(own);
  return *weight_ == 1.0 ? own : own.mul(*weight_);
}

StepLoss StepLoss::with_local(at::Tensor local) const {
  StepLoss copy = *this;
  copy.local_ = std::move(local);
  return copy;
}

StepLoss StepLoss::with_sum(const at::Tensor& sum) const {
  StepLoss copy = *this;
  copy.global_ = sum.to(local_.scalar_type());
  return copy;
}

}  // namespace brigade::distribute
