#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace brigade::launch {

/// All living processes below `ancestor`, wherever they moved: children, their children, and so on,
/// in other process groups and sessions too. What the system says at this moment.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Kills everything below `ancestor` (SIGKILL) and reaps what are this process's own children among
/// it, until nothing is left or `patience` is over. The ancestor must be a subreaper, or what loses
/// its parent escapes. Returns whether nothing is left.
bool kill_descendants(pid_t ancestor, std::chrono::milliseconds patience);

}  // namespace brigade::launch
