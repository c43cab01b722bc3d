#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "brigade/launch/mailbox.h"

namespace brigade::launch {

/// The state of a process, from /proc.
struct ProcessStat {
  char state = '?';  ///< R, S, D, Z, T: stopped by a signal, t: by a debugger, ...
  pid_t parent = 0;
};

/// Nothing for a process that has ended.
std::optional<ProcessStat> stat_of(pid_t pid);

/// The number of context switches of its first thread; being stopped counts as one. The same number
/// at two times means that it did not run between them. 0 for a process that has ended.
std::int64_t times_off_core(pid_t pid);

/// The oldest child that still exists.
std::optional<pid_t> first_child_of(pid_t pid);

/// All current descendants of `ancestor`, including those in other process groups and sessions, and
/// zombies.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Kills all descendants of `ancestor` with SIGKILL, except those in `spared` and their
/// descendants, and reaps those that are children of this process. Repeats until none is left,
/// `patience` is over or a stop is requested. `ancestor` must be a subreaper; otherwise orphans
/// escape. Returns whether none is left.
bool kill_descendants(pid_t ancestor, std::chrono::milliseconds patience,
                      const std::vector<pid_t>& spared = {}, const std::stop_token& stop = {});

/// Kills, on a background thread, the processes that have lost their shim: the descendants of this
/// process that are not below a running shim. Searching /proc until they are gone may take seconds,
/// during which the launcher's loop must not block. The destructor cancels a running sweep.
///
/// Thread-safety: one thread.
class DescendantSweep {
 public:
  /// Starts a sweep that spares the processes in `spared` and their descendants. Start no process
  /// until it has ended. Call it only while no sweep is running.
  void begin(std::vector<pid_t> spared);
  bool is_running();
  /// Readable when a sweep has ended.
  int descriptor() const { return ends_.descriptor(); }

 private:
  struct Ended {};
  Mailbox<Ended> ends_;
  bool is_running_ = false;
  std::jthread thread_;  // ends first
};

}  // namespace brigade::launch
