#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

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

}  // namespace brigade::launch
