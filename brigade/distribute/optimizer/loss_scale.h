#pragma once

#include <string_view>

namespace brigade::distribute {

/// What the loss that a replica hands to `minimize` stands for, and so what the gradients are
/// divided by. Declared once: the first call of a optimizer binds all later ones, in every replica.
enum class LossScale {
  /// A mean over the replica's own examples (a scalar), or one value for each of them. The gradient
  /// is the exact mean
  /// over the global batch, however uneven the shares: each replica counts by its examples, an
  /// empty one not at all.
  kMeanOverExamples,
  /// A sum over the replica's examples, or one value for each: the gradient is that of the sum over
  /// the global batch.
  kSum,
  /// Divided by the global batch size already (`compute_average_loss`): replicas' gradients are
  /// added, nothing else. With accumulation divide by the examples of all its micro-batches.
  kAlreadyScaled,
};

std::string_view to_string(LossScale scale);

}  // namespace brigade::distribute
