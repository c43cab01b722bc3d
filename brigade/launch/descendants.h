#pragma once

#include <sys/types.h>

#include <chrono>
#include <stop_token>
#include <vector>

namespace brigade::launch {

/// All processes below `ancestor`, wherever they moved: children, their children, and so on, in
/// other process groups and sessions too, those that ended and were not waited for among them. What
/// the system says at this moment.
std::vector<pid_t> descendants_of(pid_t ancestor);

/// Kills everything below `ancestor` (SIGKILL), those in `spared` and what is below them left out,
/// and reaps what are this process's own children among it, until nothing is left, `patience` is
/// over or a stop is asked for. The ancestor must be a subreaper, or what loses its parent escapes.
/// Returns whether nothing is left.
bool kill_descendants(pid_t ancestor, std::chrono::milliseconds patience,
                      const std::vector<pid_t>& spared = {}, const std::stop_token& stop = {});

}  // namespace brigade::launch
