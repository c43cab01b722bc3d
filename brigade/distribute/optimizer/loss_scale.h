#pragma once

#include <string_view>

namespace brigade::distribute {

/// What the loss that a replica hands to `minimize` stands for, and so what the gradients are
/// divided by. Declared once: the first call of an optimizer binds all later ones, in every replica.
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

}  // namespace brigade::distribute
