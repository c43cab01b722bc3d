#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// A learning rate as a pure function of the step: the number of updates made so far, from 0. It
/// holds only its configuration, so a resumed job continues with exactly the same rate. Created
/// from the structs below, which equal tf.keras.optimizers.schedules, computed in double.
///
/// Pass its value to `Optimizer::set_learning_rate` before each step.
///
/// Thread-safety: immutable.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// The name in `config`: "exponential_decay".
  virtual std::string_view name() const = 0;
  /// The rate of the update with number `step`. Throws kInvalidArgument for a negative step.
  virtual double operator()(std::int64_t step) const = 0;
  /// The configuration as data, for manifests and logs; `make_schedule` takes it back.
  virtual io::StateTree config() const = 0;
};

using SchedulePtr = std::shared_ptr<const Schedule>;

/// The schedule with this configuration. Throws kInvalidArgument for an unknown name (suggesting
/// the nearest), for a missing field, and for values that the schedule refuses.
SchedulePtr make_schedule(const io::StateTree& config);

// Each of these structs is plain data until `schedule()` creates a schedule from it, which throws
// kInvalidArgument naming the field and the allowed values.

/// A constant rate.
struct ConstantRate {
  static constexpr std::string_view kName = "constant";
  double learning_rate = 0.0;
  SchedulePtr schedule() const;
};

/// Multiplied by `factor` once every `step_size` steps. PyTorch: StepLR.
struct StepDecay {
  static constexpr std::string_view kName = "step_decay";
  double initial_learning_rate = 0.0;
  std::int64_t step_size = 0;
  double factor = 0.1;
  SchedulePtr schedule() const;
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
};

/// values[0] up to and including step boundaries[0], then values[1], and so on. Keras:
/// PiecewiseConstantDecay.
struct PiecewiseConstantDecay {
  static constexpr std::string_view kName = "piecewise_constant_decay";
  std::vector<std::int64_t> boundaries = {};  ///< ascending; the last step of each value
  std::vector<double> values = {};            ///< one more than boundaries
  SchedulePtr schedule() const;
};

/// Decays along half a cosine from the initial rate to `alpha` times it, and stays there
/// (Loshchilov and Hutter, 2016). Keras's warmup_target and warmup_steps: put a `WarmUp` in front.
struct CosineDecay {
  static constexpr std::string_view kName = "cosine_decay";
  double initial_learning_rate = 0.0;
  std::int64_t decay_steps = 0;
  double alpha = 0.0;
  SchedulePtr schedule() const;
};

/// A sequence of cosine decays, each `t_mul` times as long as the previous one and starting at
/// `m_mul` times its rate. Keras computes the current decay with a logarithm, whose rounding may
/// delay a restart by one step; here restarts are exact.
struct CosineDecayRestarts {
  static constexpr std::string_view kName = "cosine_decay_restarts";
  double initial_learning_rate = 0.0;
  std::int64_t first_decay_steps = 0;
  double t_mul = 2.0;  ///< at least 1: with shorter and shorter decays the sequence would end
  double m_mul = 1.0;
  double alpha = 0.0;
  SchedulePtr schedule() const;
};

/// Increases linearly from `initial_learning_rate` to the first value of `then`, and continues with
/// it: step 0 of `then` is step `warmup_steps`. With a `CosineDecay` this equals Keras's with
/// warmup_target and warmup_steps.
struct WarmUp {
  static constexpr std::string_view kName = "warm_up";
  double initial_learning_rate = 0.0;
  std::int64_t warmup_steps = 0;
  SchedulePtr then = nullptr;
  SchedulePtr schedule() const;
};

/// `schedule` with every rate multiplied by global_batch / base_batch: a rate tuned for batches of
/// `base_batch` examples, for a job with global batches of `global_batch` (the linear scaling rule;
/// Goyal et al., 2017, who add a warm-up of some epochs). Throws kInvalidArgument for no schedule
/// and sizes below 1.
SchedulePtr scaled_with_global_batch(SchedulePtr schedule, std::int64_t base_batch,
                                     std::int64_t global_batch);

/// The schedule of `scaled_with_global_batch`; for `make_schedule`.
struct ScaledWithGlobalBatch {
  static constexpr std::string_view kName = "scaled_with_global_batch";
  SchedulePtr schedule_to_scale = nullptr;
  std::int64_t base_batch = 0;
  std::int64_t global_batch = 0;
  SchedulePtr schedule() const;
};

}  // namespace brigade::optim
