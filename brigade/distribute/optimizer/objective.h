#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "brigade/distribute/optimizer/loss_scale.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

/// What a replica's loss contributes to what the step minimizes: its product with `weight`, summed
/// over elements and replicas, and divided by the examples of all replicas if it is a mean.
/// Weighing in the gradient that backward starts from costs nothing, while a multiplication of the
/// loss would be a node of the graph (20 us of an MLP's step).
struct Objective {
  at::Tensor loss;  ///< of any shape; undefined: this replica has none
  /// The loss of an empty share, which counts for nothing.
  at::Tensor loss_of_nothing = {};
  double numerator = 1.0;
  double denominator = 1.0;
  /// A mean's examples in all replicas, by which it is to be divided; unset where that is not
  /// known.
  std::optional<std::int64_t> global_examples = std::nullopt;
  /// A mean's examples in this replica.
  std::int64_t local_examples = 0;

  /// The weight of each element, of a mean over `examples`.
  double weight(double examples = 1.0) const { return numerator / (denominator * examples); }
};

/// Who divides a mean by its examples: the step itself, or an accumulation of several later.
enum class Normalize { kNow, kLater };

/// Reads `loss` as `scale` says. With kNow `global_examples` is always set for a mean; where the
/// batch does not tell it is counted, which is a collective. Throws kFailedPrecondition for a
/// scalar mean whose examples are not known, kInvalidArgument if the loss has not one value an
/// example.
Objective objective_of(const ReplicaContext& context, const at::Tensor& loss, LossScale scale,
                       Normalize normalize);

/// The sum of `value` over the replicas. Collective.
std::int64_t summed_over_replicas(const ReplicaContext& context, std::int64_t value);

}  // namespace brigade::distribute
