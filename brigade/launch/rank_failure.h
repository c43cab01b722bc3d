#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// The state of another process when one failed.
struct OtherRank {
  int rank = 0;
  bool was_running = false;
  std::string text = {};  ///< "rank 1 was running; it last said: step 12"
};

/// How one process of a job failed, and the state of the others at that time.
struct RankFailure {
  int rank = 0;  ///< -1: a whole host
  ExitStatus status;
  std::string reason;  ///< "exit code 1", "signal 9 (SIGKILL)", "it has not been heard of for 10 s"
  std::chrono::milliseconds after{0};  ///< since the processes were started
  int generation = 0;
  std::vector<std::string> last_lines;
  std::vector<OtherRank> others;
  std::string elsewhere = {};  ///< another host, whose launcher has the details: "host 1 (b)"
};

/// Human-readable text of several lines.
std::string to_string(const RankFailure& failure);

}  // namespace brigade::launch
