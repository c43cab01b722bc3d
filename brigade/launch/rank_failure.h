#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// What another process did when one failed.
struct OtherRank {
  int rank = 0;
  bool was_running = false;
  std::string text = {};  ///< "rank 1 was running; it last said: step 12"
};

/// How one process of a job failed, and what the others did then.
struct RankFailure {
  int rank = 0;  ///< -1: a host as a whole
  ExitStatus status;
  std::string reason;  ///< "exit code 1", "signal 9 (SIGKILL)", "it has not been heard of for 10 s"
  std::chrono::milliseconds after{0};  ///< since the processes were started
  int generation = 0;
  std::vector<std::string> last_lines;
  std::vector<OtherRank> others;
  std::string elsewhere = {};  ///< the other host whose launcher has all this: "host 1 (b)"
};

/// For people: several lines.
std::string to_string(const RankFailure& failure);

}  // namespace brigade::launch
