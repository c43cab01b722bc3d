#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "brigade/base/clock.h"

namespace brigade::train {

/// How often to do something. If both are set, it is due when either has passed (TensorFlow allows
/// only one); if neither is set, never.
struct Every {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<std::chrono::milliseconds> time = std::nullopt;

  bool is_never() const { return !steps && !time; }
};

/// Decides when something is due again, by steps, by time, or by whichever comes first (TensorFlow:
/// SecondOrStepTimer). The first `is_due` after construction or `reset` returns true.
///
/// Thread-safety: one thread at a time.
class StepTimer {
 public:
  /// Throws kInvalidArgument for steps or a time that are not above 0. `clock` must outlive this
  /// object.
  StepTimer(Every every, const base::Clock& clock);

  /// Whether it is due at this step: whether the steps or the time since the last `mark` have
  /// passed. A step is never due twice.
  bool is_due(std::int64_t step) const;
  /// The same by the time alone.
  bool is_due_by_time(std::int64_t step) const;

  /// The time and steps between two marks.
  struct Elapsed {
    std::chrono::duration<double> time{0};
    std::int64_t steps = 0;
  };
  /// Records that it was done at this step. Returns nothing the first time.
  std::optional<Elapsed> mark(std::int64_t step);

  /// Forgets the marks.
  void reset() { last_.reset(); }
  std::optional<std::int64_t> last_step() const {
    return last_ ? std::optional(last_->step) : std::nullopt;
  }

 private:
  struct Mark {
    std::int64_t step;
    std::chrono::steady_clock::time_point time;
  };
  Every every_;
  const base::Clock& clock_;
  std::optional<Mark> last_;
};

}  // namespace brigade::train
