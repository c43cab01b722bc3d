#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "brigade/distribute/optimizer/objective.h"

namespace brigade::distribute {

/// The loss of a step, as `Optimizer::minimize` returns it in each replica. Return it from the step
/// function, and get the loss of the global batch outside:
///
///   const auto losses = strategy.run([&](const Batch& batch) {
///     return adam.minimize(loss_of(model(batch.x), batch.y)); }, batch);
///   const at::Tensor loss = strategy.reduce_loss(losses);
///
/// If the gradients go to other processes, the loss goes with them in the same call, so
/// `reduce_loss` makes none. (A function that returns a tensor, `loss.detach()`, can have its mean
/// by `reduce_mean_over_examples`: one more call in which all workers wait for each other.)
///
/// Thread-safety: a value.
class StepLoss {
 public:
  /// Without a value: of gradients that a program has made itself.
  StepLoss() = default;
  /// For optimizers: `report` is what is reduced in the loss's place; undefined: the loss.
  StepLoss(const ReplicaContext& context, const Objective& objective, const at::Tensor& loss,
           LossScale scale, const at::Tensor& report);

  /// This replica's: the loss that was minimized, detached; a scalar or one value per example. Or
  /// what was reported in its place. Meaningless in a replica without examples.
  const at::Tensor& local() const { return local_; }
  /// That of the global batch, equal in all replicas; undefined unless it came with the gradients.
  /// `Strategy::reduce_loss` returns it in any case.
  const at::Tensor& global() const { return global_; }

  /// For strategies and optimizers, from here on. What this replica adds to `global`, in the
  /// accumulation dtype. Throws kFailedPrecondition if there is no value, and if it is a mean over
  /// numbers of examples that are not known.
  at::Tensor part() const;
  /// Whether `part` can be computed.
  bool has_part() const { return local_.defined() && weight_.has_value(); }
  at::ScalarType part_dtype() const;
  std::int64_t part_numel() const { return is_per_example_ ? 1 : local_.numel(); }
  /// The same loss of a captured step that was replayed.
  StepLoss with_local(at::Tensor local) const;
  /// `sum` is that of all replicas' parts.
  StepLoss with_sum(const at::Tensor& sum) const;

 private:
  at::Tensor local_;
  at::Tensor global_;
  bool is_per_example_ = false;
  bool is_mean_ = true;
  std::optional<double> weight_;  // of this replica's mean or sum; 0: it has no examples
};

}  // namespace brigade::distribute
