#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "brigade/io/state_tree.h"

namespace brigade::optim {

/// A learning rate as a pure function of the step: how many updates have been made before this one,
/// from 0. It holds its configuration and nothing else, so a resumed job that knows its step goes
/// on with the very rate that it would have had. Made from the structs in decay.h, cosine_decay.h
/// and warm_up.h, which compute what tf.keras.optimizers.schedules computes, in double.
///
/// Hand its value to `Optimizer::set_learning_rate` before each step.
///
/// Thread-safety: immutable.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// As in `config`: "exponential_decay".
  virtual std::string_view name() const = 0;
  /// The rate of the update with this number. Throws kInvalidArgument for a negative step.
  virtual double operator()(std::int64_t step) const = 0;
  /// The configuration as data, for manifests and logs; `make_schedule` takes it back.
  virtual io::StateTree config() const = 0;
};

using SchedulePtr = std::shared_ptr<const Schedule>;

/// The schedule with this configuration. Throws kInvalidArgument for an unknown name, naming the
/// nearest, for a missing field, and for what the schedule itself refuses.
SchedulePtr make_schedule(const io::StateTree& config);

}  // namespace brigade::optim
