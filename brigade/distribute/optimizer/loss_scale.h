#pragma once

#include <string_view>

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

}  // namespace brigade::distribute
