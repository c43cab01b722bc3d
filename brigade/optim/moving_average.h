#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/variables/variable.h"

namespace brigade::optim {

/// Options of ExponentialMovingAverage.
struct MovingAverageOptions {
  /// The fraction of the average that an update keeps: close to 1, such as 0.999 or 0.9999.
  double decay = 0.999;
  /// Whether averages start from zero with bias correction (as in Adam), rather than from the
  /// variables' initial values.
  bool zero_debias = false;
  /// The suffix of the averages' names: "conv1/weights/ExponentialMovingAverage".
  std::string name = "ExponentialMovingAverage";
};

/// Averages of weights over the steps, which often generalize better than the last weights:
/// average -= (1 - decay) * (average - variable). TensorFlow: tf.train.ExponentialMovingAverage.
///
///   ExponentialMovingAverage ema({.decay = 0.999}, trained);
///   while (...) { strategy.run(step, batch); ema.update(); }
///   { const AveragedWeights averaged(ema); evaluate(...); }
///
/// Kept once, on the device of replica 0, however many replicas there are: float32 for half types,
/// else the variable's dtype. For on-read variables, the value that is read is averaged.
///
/// Thread-safety: outside of replicas, from one thread.
class ExponentialMovingAverage {
 public:
  /// Averages start from the variables' current values. Throws kInvalidArgument for a decay outside
  /// of [0, 1], variables that are not floating, and duplicates.
  ExponentialMovingAverage(MovingAverageOptions options,
                           std::span<const variables::Variable> variables);
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = delete;

  /// Updates the averages with the variables. With `num_updates`, usually the global step, the
  /// decay is at most (1 + num_updates) / (10 + num_updates), so that averages follow faster at the
  /// start. Throws kFailedPrecondition inside replicas and under `AveragedWeights`,
  /// kInvalidArgument for a negative number.
  void update(std::optional<std::int64_t> num_updates = std::nullopt);

  /// A copy of the average. Throws kNotFound for other variables, and kFailedPrecondition, with
  /// zero debias, before the first update.
  at::Tensor average(const variables::Variable& variable) const;
  /// The variable's name, a slash and the options' name: the name of the average in checkpoints.
  std::string average_name(const variables::Variable& variable) const;

  /// Copies of the state to save, by name.
  std::map<std::string, at::Tensor> state() const;
  /// Restores what `state` returned; other names are ignored. Throws kNotFound naming a missing
  /// tensor, and kInvalidArgument for a tensor of another shape or dtype; then nothing is changed.
  void restore(const std::map<std::string, at::Tensor>& state);

  std::span<const variables::Variable> variables() const { return variables_; }
  /// [variable]: its state, which may be overwritten in place by that of another process.
  std::span<const at::Tensor> values() const { return averages_; }

 private:
  friend class AveragedWeights;
  std::size_t index_of(const variables::Variable& variable) const;
  std::string state_name(std::size_t i) const;
  std::string keep_name() const { return options_.name + "/decay_product"; }
  at::Tensor average(std::size_t i) const;

  const MovingAverageOptions options_;
  const std::vector<variables::Variable> variables_;
  std::vector<at::Tensor> averages_;  // [variable]; with zero debias still biased
  double decay_product_ = 1.0;        // of all updates so far: the weight of the initial value
  bool is_swapped_ = false;
};

/// During its lifetime the variables hold their averages; then the trained values are restored, bit
/// for bit, even if the variables were changed meanwhile. For evaluation and export.
///
/// Holds a copy of the variables. The averages must outlive it.
///
/// Thread-safety: outside of replicas, from one thread.
class AveragedWeights {
 public:
  /// Throws kFailedPrecondition inside replicas, if the variables already hold the averages, and as
  /// `ExponentialMovingAverage::average`.
  explicit AveragedWeights(ExponentialMovingAverage& averages);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void put_back() const;
  ExponentialMovingAverage& averages_;
  std::vector<std::vector<at::Tensor>> trained_;  // [variable][component with its own value]
};

}  // namespace brigade::optim
