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
};

/// The machine's steady clock.
class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
};

/// A clock that stands still until it is advanced: for tests.
class ManualClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  /// Throws kInvalidArgument if `step` is negative.
  void advance(std::chrono::steady_clock::duration step);

 private:
  std::atomic<std::chrono::steady_clock::duration::rep> ticks_{0};
};

}  // namespace brigade::base
