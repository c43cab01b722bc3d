#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

/// What the loss passed to `minimize` is, which determines what the gradients are divided by. The
/// first call of an optimizer declares it for all later calls, in every replica.
enum class LossScale {
  /// A mean over the replica's own examples (a scalar), or one value per example. The gradient is
  /// the exact mean over the global batch, however uneven the per-replica batches are: each replica
  /// is weighted by its number of examples.
  kMeanOverExamples,
  /// A sum over the replica's examples, or one value per example. The gradient is that of the sum
  /// over the global batch.
  kSum,
  /// Already divided by the global batch size (`compute_average_loss`): the replicas' gradients are
  /// only added. With accumulation, divide by the examples of all micro-batches of an update.
  kAlreadyScaled,
};

std::string_view to_string(LossScale scale);

/// What a replica's loss contributes to what the step minimizes: its product with `weight`, summed
/// over elements and replicas, and divided by the examples of all replicas if it is a mean.
/// The weight is applied to the gradient from which backward starts, at no cost; multiplying the
/// loss would add a node to the graph (20 us of an MLP's step).
struct Objective {
  at::Tensor loss;  ///< of any shape; undefined: this replica has none
  /// The loss of an empty per-replica batch, whose gradients are dropped.
  at::Tensor empty_loss = {};
  double numerator = 1.0;
  double denominator = 1.0;
  /// The number of a mean's examples in all replicas, by which it is divided; unset if not known.
  std::optional<std::int64_t> global_examples = std::nullopt;
  /// The number of a mean's examples in this replica.
  std::int64_t local_examples = 0;

  /// The weight of each element, of a mean over `examples`.
  double weight(double examples = 1.0) const { return numerator / (denominator * examples); }
};

/// When a mean is divided by its number of examples: in the step itself, or later, when several
/// accumulated micro-batches are applied.
enum class Normalize { kNow, kLater };

/// The objective of `loss`, as declared by `scale`. With kNow `global_examples` is always set for a
/// mean; if the batch does not have the number, the examples are counted, which is a collective.
/// Throws kFailedPrecondition for a scalar mean whose number of examples is not known,
/// kInvalidArgument if the loss does not have one value per example.
Objective objective_of(const ReplicaContext& context, const at::Tensor& loss, LossScale scale,
                       Normalize normalize);

/// The sum of `value` over the replicas. Collective.
std::int64_t summed_over_replicas(const ReplicaContext& context, std::int64_t value);

}  // namespace brigade::distribute
