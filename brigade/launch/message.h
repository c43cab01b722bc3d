#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "brigade/launch/exit_status.h"

namespace brigade::launch {

/// The messages between the launchers of a job, one launcher per host. Every launcher receives all
/// messages in the same order. Reports are for the coordinator, which runs on host 0; orders come
/// from the coordinator.

/// A process has ended. Orderly: in the way that a stop request asks for. In a job with roles an
/// order answers it, unless the job is being stopped.
struct RankEnded {
  int generation = 0;
  int rank = 0;
  ExitStatus status = {};
  bool is_orderly = true;
  bool was_asked = true;  ///< a signal of its launcher had reached it
};

/// A process has stalled and counts as lost.
struct RankLost {
  int generation = 0;
  int rank = 0;
  std::string reason = {};
};

/// A host's launcher received a signal.
struct SignalReceived {
  int host = 0;
  int signal = 0;
};

/// All of a host's processes have ended.
struct HostFinished {
  int host = 0;
  int generation = 0;
  bool all_done = true;  ///< with exit code 0
  int code = 0;          ///< for independent processes: of the first that failed for good
};

/// A host's launcher cannot continue.
struct HostFailed {
  int host = 0;
  std::string reason = {};
};

/// The state of the job after a generation.
struct JobSummary {
  int restarts = 0;
  int membership_changes = 0;
  bool reports_failure = false;  ///< whether to report the failure that ended the last generation
  std::string note = {};         ///< text to log; may be empty
};

struct StartOrder {
  int generation = 0;
  std::vector<int> processes = {};  ///< by host
  std::string rendezvous = {};      ///< address of the processes' rendezvous; empty: none
  std::string master = {};
  std::string cluster = {};  ///< with roles: the addresses of all tasks, in TF_CONFIG's form
  JobSummary summary = {};
};

/// With roles: this process has ended, and its host restarts it alone.
struct RestartOrder {
  int generation = 0;
  int rank = 0;
  bool is_failure = true;  ///< false if it asked for the restart
  int restarts = 0;        ///< of the job until now, this one included
  int membership_changes = 0;
};

/// Why a process with a role is not restarted although the job continues.
enum class EndKind {
  kDone,     ///< its work is done
  kTooLate,  ///< it came after the training had ended: the job does not need it
  kFailed    ///< and nobody waits for it any more
};

/// With roles: this process has ended, and is not restarted.
struct ReleaseOrder {
  int generation = 0;
  int rank = 0;
  EndKind kind = EndKind::kDone;
};

/// With roles: sends this signal to processes that the job no longer needs.
struct DismissOrder {
  int generation = 0;
  std::vector<int> ranks = {};
  int signal = 0;
};

/// All processes have joined their rendezvous.
struct AllJoinedOrder {
  int generation = 0;
};

/// This process failed first. Its host reports the failure and kills it if it still runs.
struct NameFailureOrder {
  int generation = 0;
  int rank = 0;
  ExitStatus status = {};
  std::string reason = {};
};

/// Sends this signal to all processes; with roles to all but the servers, which a DismissOrder ends
/// after the workers. SIGKILL takes effect immediately, on all.
struct StopOrder {
  int generation = 0;
  int signal = 0;
};

struct FinishOrder {
  int exit_code = 0;
  JobSummary summary = {};
};

using Message = std::variant<RankEnded, RankLost, SignalReceived, HostFinished, HostFailed,
                             StartOrder, RestartOrder, ReleaseOrder, DismissOrder, AllJoinedOrder,
                             NameFailureOrder, StopOrder, FinishOrder>;

/// JSON. Not a stable format: both ends run the same build.
std::string encode(const Message& message);
/// Throws kDataLoss for text that `encode` did not produce.
Message decode(std::string_view text);

}  // namespace brigade::launch
