#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/metrics/mean.h"

namespace brigade::metrics {

/// The fraction of correctly classified examples, for any form of labels: what "accuracy" means in
/// Keras's compile. Predictions [N, 1] or [N] are binary, labels of the predictions' shape are
/// one-hot, other labels are class indices.
class Accuracy final : public MeanOfExamples {
 public:
  explicit Accuracy(const std::string& name = "accuracy");
};

/// The fraction of values that are right: label 1 with a prediction above `threshold`, or label 0
/// with any other prediction. Labels and predictions have the same shape, or differ by a last
/// dimension of 1. Keras: BinaryAccuracy.
class BinaryAccuracy final : public MeanOfExamples {
 public:
  explicit BinaryAccuracy(double threshold = 0.5, const std::string& name = "binary_accuracy");
};

/// The fraction of examples whose highest score is at the highest value of their label. Labels
/// (one-hot) and predictions (logits or probabilities) are [..., classes]. Keras:
/// CategoricalAccuracy.
class CategoricalAccuracy final : public MeanOfExamples {
 public:
  explicit CategoricalAccuracy(const std::string& name = "categorical_accuracy");
};

/// The fraction of examples whose highest score is at their label. Labels are class indices [N] or
/// [N, 1], predictions [N, classes] are logits or probabilities; both may have further dimensions
/// after the first. Keras: SparseCategoricalAccuracy.
class SparseCategoricalAccuracy final : public MeanOfExamples {
 public:
  explicit SparseCategoricalAccuracy(const std::string& name = "sparse_categorical_accuracy");
};

/// The fraction of examples with fewer than k scores above the score of their label: classes that
/// tie at the boundary count as in the top k. Labels (one-hot) and predictions are [..., classes].
/// An example with a score that is not finite counts as wrong. Keras: TopKCategoricalAccuracy.
class TopKCategoricalAccuracy final : public MeanOfExamples {
 public:
  /// Throws kInvalidArgument if k is less than 1.
  explicit TopKCategoricalAccuracy(std::int64_t k = 5,
                                   const std::string& name = "top_k_categorical_accuracy");
};

/// The same for labels that are class indices; an index out of range counts as wrong. Keras:
/// SparseTopKCategoricalAccuracy.
class SparseTopKCategoricalAccuracy final : public MeanOfExamples {
 public:
  /// Throws kInvalidArgument if k is less than 1.
  explicit SparseTopKCategoricalAccuracy(
      std::int64_t k = 5, const std::string& name = "sparse_top_k_categorical_accuracy");
};

}  // namespace brigade::metrics
