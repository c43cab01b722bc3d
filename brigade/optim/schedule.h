#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// A learning rate as a pure function of the step: the number of updates made so far, from 0. It
/// holds only its configuration, so a resumed job continues with exactly the same rate. Created
/// from the structs in decay.h, cosine_decay.h and warm_up.h, which equal
/// tf.keras.optimizers.schedules, computed in double.
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

}  // namespace brigade::optim
