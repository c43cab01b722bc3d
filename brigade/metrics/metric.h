#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/io/state_tree.h"
#include "brigade/variables/variable.h"

namespace brigade::metrics {

/// A figure about everything seen since the last reset, whatever replica saw it: exact for any
/// split of the data, because what is kept are sums. Made under a strategy's `scope()`, each
/// replica adds up for itself (float64 variables read on demand, aggregated by sum) and `result`
/// takes the sum of all; made without one, there is one place. TensorFlow: tf.keras.metrics.Metric.
///
/// Thread-safety: `update_state` by each replica from its own thread; the rest outside of
/// `Strategy::run`.
class Metric {
 public:
  virtual ~Metric() = default;
  /// What results are reported by; with a number behind it if another metric has the name already.
  const std::string& name() const { return name_; }

  /// The metric over everything since the last reset; 0 where Keras's is 0, for example if nothing
  /// was seen.
  virtual double result() const = 0;
  /// Forgets everything. Call it at the start of an epoch.
  void reset_state() const;

  /// The sums over all replicas, to be saved in the middle of an epoch.
  io::StateTree save() const;
  /// Goes on from what `save` gave, under any number of replicas. Throws kInvalidArgument if it is
  /// not of such a metric; then nothing has changed.
  void restore(const io::StateTree& state) const;

  std::span<const variables::Variable> variables() const { return sums_; }

 protected:
  /// One sum that a metric keeps, all zeros at first.
  struct Slot {
    std::string name;
    std::vector<std::int64_t> shape = {};
  };
  Metric(const std::string& name, const std::vector<Slot>& slots);
  /// Adds to the i-th sum, in the calling replica.
  void add(std::size_t i, const at::Tensor& value) const;
  /// The i-th sum over all replicas.
  at::Tensor sum(std::size_t i) const { return sums_[i].read(); }

 private:
  std::string name_;
  std::vector<std::string> slots_;
  std::vector<variables::Variable> sums_;
};

/// A metric that compares predictions with labels.
class PredictionMetric : public Metric {
 public:
  /// Adds a batch, or a replica's share of one; nothing for an empty share, and no graph is built.
  /// What shapes they may have the metric says. `sample_weight`, if given, says how much each
  /// example counts: [N], or one for each value of an example, or a scalar. Throws kInvalidArgument
  /// naming the shapes that do not fit.
  void update_state(const at::Tensor& labels, const at::Tensor& predictions,
                    const std::optional<at::Tensor>& sample_weight = std::nullopt) const;

 protected:
  using Metric::Metric;
  /// Neither is empty or requires grad.
  virtual void update(const at::Tensor& labels, const at::Tensor& predictions,
                      const std::optional<at::Tensor>& sample_weight) const = 0;
};

}  // namespace brigade::metrics
