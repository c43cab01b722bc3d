#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "brigade/optim/schedule.h"

namespace brigade::optim {

// Each of these structs is plain data until `schedule()` creates a schedule from it, which throws
// kInvalidArgument naming the field and the allowed values. `from` creates one from the result of
// `Schedule::config`.

/// A constant rate.
struct ConstantRate {
  static constexpr std::string_view kName = "constant";
  double learning_rate = 0.0;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// Multiplied by `factor` once every `step_size` steps. PyTorch: StepLR.
struct StepDecay {
  static constexpr std::string_view kName = "step_decay";
  double initial_learning_rate = 0.0;
  std::int64_t step_size = 0;
  double factor = 0.1;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// initial * decay_rate ^ (step / decay_steps).
struct ExponentialDecay {
  static constexpr std::string_view kName = "exponential_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double decay_rate = 0.0;
  /// If true, the exponent is rounded down: the rate changes once every `decay_steps`.
  bool staircase = false;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// initial / (1 + decay_rate * step / decay_steps).
struct InverseTimeDecay {
  static constexpr std::string_view kName = "inverse_time_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double decay_rate = 0.0;
  /// If true, step / decay_steps is rounded down: the rate changes once every `decay_steps`.
  bool staircase = false;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// (initial - end) * (1 - step / decay_steps) ^ power + end, and `end` after `decay_steps`.
struct PolynomialDecay {
  static constexpr std::string_view kName = "polynomial_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double end_learning_rate = 1e-4;
  double power = 1.0;
  /// If true, the decay time is the smallest multiple of `decay_steps` that is not below the step:
  /// the decay restarts after every multiple, each time from a lower value.
  bool cycle = false;
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

/// values[0] up to and including step boundaries[0], then values[1], and so on. Keras:
/// PiecewiseConstantDecay.
struct PiecewiseConstantDecay {
  static constexpr std::string_view kName = "piecewise_constant_decay";
  std::vector<std::int64_t> boundaries = {};  ///< ascending; the last step of each value
  std::vector<double> values = {};            ///< one more than boundaries
  SchedulePtr schedule() const;
  static SchedulePtr from(const io::StateTree& config);
};

}  // namespace brigade::optim
