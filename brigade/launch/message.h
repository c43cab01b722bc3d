#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// What the launchers of a job, one a host, say to each other; all hear all of it, in one order.
/// Reports are for the coordinator, who is with host 0; orders are the coordinator's.

/// A process has ended. Orderly: as one does that was told to stop.
struct RankEnded {
  int generation = 0;
  int rank = 0;
  ExitStatus status = {};
  bool is_orderly = true;
};

/// A process stands still, and has to be given up.
struct RankLost {
  int generation = 0;
  int rank = 0;
  std::string reason = {};
};

/// A host's launcher was sent a signal.
struct SignalReceived {
  int host = 0;
  int signal = 0;
};

/// All of a host's processes have ended.
struct HostFinished {
  int host = 0;
  int generation = 0;
  bool all_done = true;  ///< with exit code 0
  int code = 0;          ///< of independent processes: of the first that failed for good
};

/// A host's launcher cannot go on.
struct HostFailed {
  int host = 0;
  std::string reason = {};
};

/// How the job stands after a generation.
struct JobSummary {
  int restarts = 0;
  int membership_changes = 0;
  bool reports_failure = false;  ///< whether the failure that ended the last generation is told
  std::string note = {};       ///< what to log; may be empty
};

struct StartOrder {
  int generation = 0;
  std::vector<int> processes = {};  ///< by host
  std::string rendezvous = {};      ///< where the processes meet; empty: nowhere
  std::string master = {};
  JobSummary summary = {};
};

/// All processes have met.
struct AllJoinedOrder {
  int generation = 0;
};

/// This process has failed first: its host is to tell how; it is killed if it still runs.
struct NameFailureOrder {
  int generation = 0;
  int rank = 0;
  ExitStatus status = {};
  std::string reason = {};
};

/// All processes are to be sent this signal; SIGKILL: at once.
struct StopOrder {
  int generation = 0;
  int signal = 0;
};

struct FinishOrder {
  int exit_code = 0;
  JobSummary summary = {};
};

using Message = std::variant<RankEnded, RankLost, SignalReceived, HostFinished, HostFailed, StartOrder,
                             AllJoinedOrder, NameFailureOrder, StopOrder, FinishOrder>;

/// Not a stable format: both ends are the same program.
std::string encode(const Message& message);
/// Throws kDataLoss for what `encode` did not make.
Message decode(std::string_view text);

}  // namespace brigade::launch
