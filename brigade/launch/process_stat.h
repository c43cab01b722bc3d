#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace brigade::launch {

/// What the system says of a process.
struct ProcessStat {
  char state = '?';  ///< R, S, D, Z, T: stopped by a signal, t: by a debugger, ...
  pid_t parent = 0;
};

/// Nothing for a process that is gone.
std::optional<ProcessStat> stat_of(pid_t pid);

/// How often its first thread has been taken off a core, which being stopped is, too: equal at two
/// times if it has not run between them. 0 for a process that is gone.
std::int64_t times_off_core(pid_t pid);

/// The oldest child that it still has.
std::optional<pid_t> first_child_of(pid_t pid);

}  // namespace brigade::launch
