#pragma once

#include <chrono>

namespace brigade::base {

/// A clock interface for code that must be testable without waiting: timeouts, back-off, "save
/// every ten minutes". Pass a clock in; code that only measures durations may use std::chrono.
///
/// Thread-safety: every clock may be read from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic. Only differences are meaningful.
  virtual std::chrono::steady_clock::time_point now() const = 0;
  /// The time of day, which may jump: only for time stamps.
  virtual std::chrono::system_clock::time_point wall_time() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  std::chrono::system_clock::time_point wall_time() const override;
};

}  // namespace brigade::base
