#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace brigade::launch {

/// Watches for processes that were stopped (SIGSTOP). Before they have met the others, and after
/// they have left, no heart beats that could be missed; in between this says the same as a missing
/// beat. One that a debugger stopped is left alone, and so is one that runs now and then.
///
/// Thread-safety: one thread at a time.
class StallDetector {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Who is seen stopped, again and again, for `patience` is to be given up.
  explicit StallDetector(std::chrono::milliseconds patience) : patience_(patience) {}

  /// When to look again; max while nobody is watched.
  Time next_look() const { return next_look_; }
  void begin(Time now);
  void end() { next_look_ = Time::max(); }
  /// All have met: what is said of a process that is stopped is another thing from now on.
  void on_all_joined() { have_all_joined_ = true; }
  /// Whether it is time to look; then `look` is called for each process.
  bool is_due(Time now);
  /// Of the process below `shim`, or the shim: why it is to be given up, or nothing.
  std::optional<std::string> look(pid_t shim, Time now);

 private:
  struct Stop {
    Time since;
    std::int64_t times_off_core = 0;
  };

  const std::chrono::milliseconds patience_;
  Time next_look_ = Time::max();
  bool have_all_joined_ = false;
  std::map<pid_t, Stop> stopped_;  // by shim
};

}  // namespace brigade::launch
