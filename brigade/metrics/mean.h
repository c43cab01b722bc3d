#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// The (weighted) mean of values, of losses for example. Keras: tf.keras.metrics.Mean, which counts
/// an example with several values once where this counts each of them: the same unless batches
/// differ in how many values an example has.
class Mean : public Metric {
 public:
  explicit Mean(const std::string& name = "mean");
  /// Adds every element of `values`; none, for an empty replica. `weights`, if given, is a scalar
  /// or has the first dimensions of `values`. Throws kInvalidArgument for other weights.
  void update_state(const at::Tensor& values,
                    const std::optional<at::Tensor>& weights = std::nullopt) const;
  double result() const override;
  /// The weight (for unweighted updates: the number) of what was seen.
  double count() const;
};

/// The (weighted) sum of values. Keras: tf.keras.metrics.Sum.
class Sum : public Metric {
 public:
  explicit Sum(const std::string& name = "sum");
  /// As `Mean::update_state`.
  void update_state(const at::Tensor& values,
                    const std::optional<at::Tensor>& weights = std::nullopt) const;
  double result() const override;
};

/// The (weighted) mean of a value that each example has, exact over batches of any sizes. The base
/// of accuracies and errors. Keras: tf.keras.metrics.MeanMetricWrapper.
class MeanOfExamples : public PredictionMetric {
 public:
  double result() const override;
  /// The weight (for unweighted updates: the number) of what was seen.
  double count() const;

 protected:
  explicit MeanOfExamples(const std::string& name);
  /// One value an example, [N], or several, [N, ...]. Throws kInvalidArgument for shapes that do
  /// not fit.
  virtual at::Tensor values(const at::Tensor& labels, const at::Tensor& predictions) const = 0;

 private:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const std::optional<at::Tensor>& sample_weight) const final;
};

}  // namespace brigade::metrics
