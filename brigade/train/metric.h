#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "brigade/variables/variable.h"

namespace brigade::train {

/// A quotient of two sums over all examples seen, whatever replica saw them: exact for any split of
/// the data. Made under a strategy's `scope()`, each replica counts for itself (variables read on
/// demand, aggregated by sum) and `result` adds up; made without one, it counts in one place.
///
/// Thread-safety: `update_state` by each replica from its own thread; the rest outside of
/// `Strategy::run`.
class Metric {
 public:
  virtual ~Metric() = default;
  const std::string& name() const { return name_; }

  /// The metric over everything since the last reset; 0 if nothing was seen, as in Keras.
  double result() const;
  /// The weight (for unweighted updates: the number) of what was seen.
  double count() const;
  /// Forgets everything. Call it at the start of an epoch.
  void reset_state() const;

 protected:
  explicit Metric(const std::string& name);
  /// Adds in the calling replica.
  void add(const at::Tensor& total, const at::Tensor& count) const;

 private:
  std::string name_;
  variables::Variable total_;
  variables::Variable count_;
};

/// The (weighted) mean of values. Keras: tf.keras.metrics.Mean.
class Mean : public Metric {
 public:
  explicit Mean(const std::string& name = "mean") : Metric(name) {}
  /// Adds every element of `values`; none, for an empty replica. `weights`, if given, is broadcast
  /// against `values`.
  void update_state(const at::Tensor& values,
                    const std::optional<at::Tensor>& weights = std::nullopt) const;
};

/// The share of examples whose highest score is at their label. Keras: SparseCategoricalAccuracy.
class SparseCategoricalAccuracy : public Metric {
 public:
  explicit SparseCategoricalAccuracy(const std::string& name = "accuracy") : Metric(name) {}
  /// `labels` [N] integral, `predictions` [N, classes]: logits or probabilities. N may be 0. Throws
  /// kInvalidArgument for other shapes.
  void update_state(const at::Tensor& labels, const at::Tensor& predictions) const;
};

}  // namespace brigade::train
