#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "brigade/train/model/model_batch.h"

/// `FitOptions::class_weight`; for the sources of `Model` only.
namespace brigade::train::internal {

/// The weights of examples by the classes of their labels; a class that is not listed has weight 1.
///
/// Thread-safety: immutable.
class ClassWeights {
 public:
  /// Throws kInvalidArgument, naming the class, for weights that are negative or not finite, and if
  /// there are none.
  explicit ClassWeights(const std::map<std::int64_t, double>& weights);

  /// One weight per label. Labels are class indices [N] or [N, 1], which are rounded if they are
  /// not integers, or one-hot [N, classes], as in Keras.
  at::Tensor of(const at::Tensor& labels) const;
  /// The batch with the weights of its label as sample weights of all outputs. Throws
  /// kInvalidArgument if it has several labels, or weights already.
  ModelBatch applied_to(const ModelBatch& batch) const;

 private:
  at::Tensor classes_, weights_;  // [classes], ascending
};

}  // namespace brigade::train::internal
