#pragma once

#include <atomic>
#include <chrono>

namespace brigade::base {

/// What time it is, for whatever must be testable without waiting: timeouts, back-off, "save every
/// ten minutes". Pass it in; code that only measures itself may use std::chrono.
///
/// Thread-safety: every clock may be read from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Never goes back. Only differences mean something.
  virtual std::chrono::steady_clock::time_point now() const = 0;
  /// The time of day, which may jump: only for stamps that people and other programs read.
  virtual std::chrono::system_clock::time_point wall_time() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  std::chrono::system_clock::time_point wall_time() const override;
};

/// A clock that stands still until it is advanced: for tests. Its time of day begins with 1970.
class ManualClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  std::chrono::system_clock::time_point wall_time() const override;
  /// Throws kInvalidArgument if `step` is negative.
  void advance(std::chrono::steady_clock::duration step);

 private:
  std::atomic<std::chrono::steady_clock::duration::rep> ticks_{0};
};

}  // namespace brigade::base
