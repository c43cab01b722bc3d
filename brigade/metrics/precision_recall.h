#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

struct PrecisionRecallOptions {
  /// In [0, 1]; predictions above are positive. Empty: 0.5, or, with `top_k`, whatever is in the
  /// top k.
  std::vector<double> thresholds = {};
  /// Only the k highest predictions of an example may be positive.
  std::optional<std::int64_t> top_k = std::nullopt;
  /// Only this class, an index of the last dimension, counts. Default: all of them together.
  std::optional<std::int64_t> class_id = std::nullopt;
};

/// Counts positives at thresholds; what `Precision` and `Recall` share.
class PrecisionRecallBase : public PredictionMetric {
 public:
  /// At the only threshold. Throws kFailedPrecondition if there are several.
  double result() const final;
  /// [threshold], in the order of the options.
  std::vector<double> results() const;

 protected:
  PrecisionRecallBase(PrecisionRecallOptions options, const std::string& name,
                      const std::string& other);
  /// What the true positives are a share of, without themselves: the second sum.
  virtual at::Tensor others(const at::Tensor& true_positives, const at::Tensor& false_positives,
                            const at::Tensor& positives) const = 0;

 private:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const std::optional<at::Tensor>& sample_weight) const final;
  PrecisionRecallOptions options_;
  at::Tensor thresholds_;               // ascending
  std::vector<std::int64_t> place_of_;  // [threshold as in the options]: its place in thresholds_
};

/// Of what was predicted positive, the share that is. Labels (0 or 1) and predictions have the same
/// shape, or differ by a last dimension of 1. Keras: Precision.
class Precision final : public PrecisionRecallBase {
 public:
  /// Throws kInvalidArgument for thresholds outside of [0, 1] and a `top_k` below 1.
  explicit Precision(PrecisionRecallOptions options = {}, const std::string& name = "precision");

 private:
  at::Tensor others(const at::Tensor& true_positives, const at::Tensor& false_positives,
                    const at::Tensor& positives) const override;
};

/// Of what is positive, the share that was predicted so. Shapes as for `Precision`. Keras: Recall.
class Recall final : public PrecisionRecallBase {
 public:
  /// Throws kInvalidArgument for thresholds outside of [0, 1] and a `top_k` below 1.
  explicit Recall(PrecisionRecallOptions options = {}, const std::string& name = "recall");

 private:
  at::Tensor others(const at::Tensor& true_positives, const at::Tensor& false_positives,
                    const at::Tensor& positives) const override;
};

}  // namespace brigade::metrics
