#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// Options of Precision and Recall.
struct PrecisionRecallOptions {
  /// In [0, 1]; predictions above a threshold are positive. Empty: 0.5; with `top_k`, all
  /// predictions in the top k are positive.
  std::vector<double> thresholds = {};
  /// Only the k highest predictions of an example may be positive.
  std::optional<std::int64_t> top_k = std::nullopt;
  /// Only this class, an index of the last dimension, counts. Default: all classes together.
  std::optional<std::int64_t> class_id = std::nullopt;
};

/// Counts positives at thresholds: the common base of `Precision` and `Recall`.
class PrecisionRecallBase : public PredictionMetric {
 public:
  /// The value at the only threshold. Throws kFailedPrecondition if there are several thresholds.
  double result() const final;
  /// The value at each threshold, in the order of `PrecisionRecallOptions::thresholds`.
  std::vector<double> results() const;

 protected:
  /// The second sum: the denominator of the metric without the true positives.
  enum class Others { kFalsePositives, kFalseNegatives };
  PrecisionRecallBase(PrecisionRecallOptions options, const std::string& name, Others others);

 private:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const std::optional<at::Tensor>& sample_weight) const final;
  PrecisionRecallOptions options_;
  Others others_;
  at::Tensor thresholds_;                   // ascending
  std::vector<std::int64_t> sorted_index_;  // [index in options_.thresholds]: index in thresholds_
};

/// The fraction of positive predictions that are right. Labels (0 or 1) and predictions have the
/// same shape, or differ by a last dimension of 1. Keras: Precision.
class Precision final : public PrecisionRecallBase {
 public:
  /// Throws kInvalidArgument for thresholds outside of [0, 1] and a `top_k` below 1.
  explicit Precision(PrecisionRecallOptions options = {}, const std::string& name = "precision");
};

/// The fraction of positive labels that were predicted positive. Shapes as for `Precision`. Keras:
/// Recall.
class Recall final : public PrecisionRecallBase {
 public:
  /// Throws kInvalidArgument for thresholds outside of [0, 1] and a `top_k` below 1.
  explicit Recall(PrecisionRecallOptions options = {}, const std::string& name = "recall");
};

}  // namespace brigade::metrics
