#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "brigade/metrics/mean.h"

namespace brigade::metrics {

/// The share of examples classified rightly, whichever way labels are written; what "accuracy"
/// stands for in Keras's compile. Predictions [N, 1] or [N] are binary, labels of the predictions'
/// shape are one-hot, others are class numbers.
class Accuracy final : public MeanOfExamples {
 public:
  explicit Accuracy(const std::string& name = "accuracy") : MeanOfExamples(name) {}

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
};

/// The share of values where a prediction above `threshold` meets label 1 and another label 0.
/// Labels and predictions have the same shape, or differ by a last dimension of 1. Keras:
/// BinaryAccuracy.
class BinaryAccuracy final : public MeanOfExamples {
 public:
  explicit BinaryAccuracy(double threshold = 0.5, const std::string& name = "binary_accuracy")
      : MeanOfExamples(name), threshold_(threshold) {}

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
  double threshold_;
};

/// The share of examples whose highest score is where their label is highest. Labels (one-hot) and
/// predictions (logits or probabilities) are [..., classes]. Keras: CategoricalAccuracy.
class CategoricalAccuracy final : public MeanOfExamples {
 public:
  explicit CategoricalAccuracy(const std::string& name = "categorical_accuracy")
      : MeanOfExamples(name) {}

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
};

/// The share of examples whose highest score is at their label. Labels are class numbers [N] or
/// [N, 1], predictions [N, classes] logits or probabilities; both may have more dimensions behind
/// the first. Keras: SparseCategoricalAccuracy.
class SparseCategoricalAccuracy final : public MeanOfExamples {
 public:
  explicit SparseCategoricalAccuracy(const std::string& name = "sparse_categorical_accuracy")
      : MeanOfExamples(name) {}

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
};

/// The share of examples with fewer than k scores above that of their label: classes that tie at
/// the boundary are in. Labels (one-hot) and predictions are [..., classes]. An example with a
/// score that is not finite counts as wrong. Keras: TopKCategoricalAccuracy.
class TopKCategoricalAccuracy final : public MeanOfExamples {
 public:
  /// Throws kInvalidArgument if k is less than 1.
  explicit TopKCategoricalAccuracy(std::int64_t k = 5,
                                   const std::string& name = "top_k_categorical_accuracy");

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
  std::int64_t k_;
};

/// The same for labels that are class numbers; one that is no class counts as wrong. Keras:
/// SparseTopKCategoricalAccuracy.
class SparseTopKCategoricalAccuracy final : public MeanOfExamples {
 public:
  /// Throws kInvalidArgument if k is less than 1.
  explicit SparseTopKCategoricalAccuracy(
      std::int64_t k = 5, const std::string& name = "sparse_top_k_categorical_accuracy");

 private:
  at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const override;
  std::int64_t k_;
};

}  // namespace brigade::metrics
