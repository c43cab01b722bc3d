#pragma once

#include <sys/types.h>

#include <chrono>
#include <stop_token>
#include <vector>

namespace brigade::launch {

/// All current descendants of `ancestor`, including those in other process groups and sessions, and
/// zombies.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Kills all descendants of `ancestor` with SIGKILL, except those in `spared` and their
/// descendants, and reaps those that are children of this process. Repeats until none is left,
/// `patience` is over or a stop is requested. `ancestor` must be a subreaper; otherwise orphans
/// escape. Returns whether none is left.
bool kill_descendants(pid_t ancestor, std::chrono::milliseconds patience,
                      const std::vector<pid_t>& spared = {}, const std::stop_token& stop = {});

}  // namespace brigade::launch
