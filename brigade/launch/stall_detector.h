#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace brigade::launch {

/// Detects processes that were stopped (SIGSTOP). It is needed before a process has joined the
/// rendezvous and after it has left, when no heartbeats are sent; in between it reports the same as
/// missing heartbeats. Processes stopped by a debugger, and those that run now and then, are not
/// reported.
///
/// Thread-safety: one thread at a time.
class StallDetector {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A process that is seen stopped at every check for `patience` counts as lost.
  explicit StallDetector(std::chrono::milliseconds patience) : patience_(patience) {}

  /// When to look again; max while no process is watched.
  Time next_look() const { return next_look_; }
  void begin(Time now);
  void end() { next_look_ = Time::max(); }
  /// All processes have joined: from now on a stopped process is reported as silent.
  void on_all_joined() { have_all_joined_ = true; }
  /// Whether it is time to look; then `look` is called for each process.
  bool is_due(Time now);
  /// Checks the process below `shim`, and the shim. Returns why it counts as lost, or nothing.
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
