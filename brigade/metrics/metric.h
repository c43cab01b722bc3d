#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/io/state_tree.h"
#include "brigade/variables/variable.h"

namespace brigade::distribute {
struct CreatedState;
}  // namespace brigade::distribute

namespace brigade::metrics {

/// A value computed over all data seen since the last reset, on all replicas. It is exact for any
/// split of the data, because a metric stores sums. Created under a strategy's `scope()`, it has
/// its sums in each replica (float64 variables, kOnRead, aggregated by sum), and `result` adds them
/// up; created without a scope, it has them once. TensorFlow: tf.keras.metrics.Metric.
///
/// Thread-safety: each replica calls `update_state` from its own thread; everything else is called
/// outside of `Strategy::run`.
class Metric {
 public:
  virtual ~Metric() = default;
  /// The name under which the result is reported; a number is appended if another metric already
  /// has the name.
  const std::string& name() const { return name_; }

  /// The metric's value since the last reset; 0 where Keras's is 0, for example without data.
  virtual double result() const = 0;
  /// Sets all sums to zero. Call it at the start of an epoch.
  void reset_state() const;

  /// The sums over all replicas, to save a metric in the middle of an epoch.
  io::StateTree save() const;
  /// Restores the result of `save`, under any number of replicas. Throws kInvalidArgument, and
  /// changes nothing, for the state of a different metric.
  void restore(const io::StateTree& state) const;

  /// The sums over all replicas, float64 on the CPU, to be merged in another process.
  std::vector<at::Tensor> sums() const;
  /// Adds the `sums` of the same metric over other data. Throws kInvalidArgument, and changes
  /// nothing, for those of a different metric. TensorFlow: Metric.merge_state.
  void merge(std::span<const at::Tensor> sums) const;

  std::span<const variables::Variable> variables() const { return sums_; }

 protected:
  /// One sum of a metric, initially all zeros.
  struct Slot {
    std::string name;
    std::vector<std::int64_t> shape = {};
  };
  Metric(const std::string& name, const std::vector<Slot>& slots);
  /// Adds to the i-th sum of the calling replica.
  void add(std::size_t i, const at::Tensor& value) const;
  /// The i-th sum over all replicas.
  at::Tensor sum(std::size_t i) const { return sums_[i].read(); }

 private:
  std::string name_;
  std::vector<variables::Variable> sums_;
  std::shared_ptr<const distribute::CreatedState> state_;  // saves and restores the sums
};

/// A metric that compares predictions with labels.
class PredictionMetric : public Metric {
 public:
  /// Adds a batch, or a per-replica batch, which may be empty; no autograd graph is built. The
  /// class of the metric documents the shapes. `sample_weight`, if given, is the weight of each
  /// example: [N], or one weight for each value of an example, or a scalar. Throws
  /// kInvalidArgument, with the shapes, if they do not match.
  void update_state(const at::Tensor& labels, const at::Tensor& predictions,
                    const std::optional<at::Tensor>& sample_weight = std::nullopt) const;

 protected:
  using Metric::Metric;
  /// Neither tensor is empty or requires grad.
  virtual void update(const at::Tensor& labels, const at::Tensor& predictions,
                      const std::optional<at::Tensor>& sample_weight) const = 0;
};

}  // namespace brigade::metrics
