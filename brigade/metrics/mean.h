#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "brigade/metrics/metric.h"

namespace brigade::metrics {

/// The (weighted) mean of values, for example of losses. Keras: tf.keras.metrics.Mean, which counts
/// an example with several values once, where this counts each value: the results are the same
/// unless batches differ in the number of values of an example.
class Mean : public Metric {
 public:
  explicit Mean(const std::string& name = "mean");
  /// Adds every element of `values`, which may be empty. `weights`, if given, is a scalar or has
  /// the first dimensions of `values`. Throws kInvalidArgument for weights of another shape.
  void update_state(const at::Tensor& values,
                    const std::optional<at::Tensor>& weights = std::nullopt) const;
  double result() const override;
  /// The sum of weights of all values so far; for unweighted updates, their number.
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

/// The (weighted) mean of one value per example, exact for batches of any sizes. The base class of
/// accuracies and errors. Keras: tf.keras.metrics.MeanMetricWrapper.
class MeanOfExamples : public PredictionMetric {
 public:
  /// Returns one value per example, [N], or several, [N, ...]. Throws kInvalidArgument for shapes
  /// that do not match.
  using Values = std::function<at::Tensor(const at::Tensor& labels, const at::Tensor& predictions)>;
  double result() const override;
  /// The sum of weights of all values so far; for unweighted updates, their number.
  double count() const;

 protected:
  MeanOfExamples(const std::string& name, Values values);

 private:
  void update(const at::Tensor& labels, const at::Tensor& predictions,
              const std::optional<at::Tensor>& sample_weight) const final;
  Values values_;
};

}  // namespace brigade::metrics
