#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace brigade::launch {

/// Watches for processes that were stopped (SIGSTOP) before they have met the others, where no
/// heart beats yet that could be missed. One that a debugger stopped is left alone.
///
/// Thread-safety: one thread at a time.
class StandstillWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Who is seen stopped, again and again, for `patience` is to be given up.
  explicit StandstillWatch(std::chrono::milliseconds patience) : patience_(patience) {}

  /// When to look again; max while nobody is watched.
  Time next_look() const { return next_look_; }
  void begin(Time now);
  void end() { next_look_ = Time::max(); }
  /// Whether it is time to look; then `look` is called for each process.
  bool is_due(Time now);
  /// Of the process below `shim`, or the shim: why it is to be given up, or nothing.
  std::optional<std::string> look(pid_t shim, Time now);

 private:
  const std::chrono::milliseconds patience_;
  Time next_look_ = Time::max();
  std::map<pid_t, Time> stopped_since_;  // by shim
};

}  // namespace brigade::launch
