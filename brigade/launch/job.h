#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/exit_status.h"
#include "brigade/launch/line_router.h"

namespace brigade::launch {

/// Whether each process keeps to its own part of the host's cores.
enum class CoreBinding { kDivide, kNone };

/// Between how many processes a job may run.
struct ElasticRange {
  int min = 1;
  int max = 1;
};

struct JobOptions {
  /// The program and its arguments; each process runs the same.
  std::vector<std::string> command;
  int processes = 1;
  /// How often the job is started again after a process has failed. A process that ended with
  /// wrong usage (2) is not tried again.
  int max_restarts = 0;
  /// A process that is lost (killed, not heard of) is done without, as long as so many are left;
  /// the job goes on with the others from its last checkpoint. Unset: it counts as a failure.
  std::optional<ElasticRange> elastic = std::nullopt;
  /// How often the number of processes may change, and how often processes that saved and asked for
  /// a restart (75) get one. Not counted as failures.
  int max_membership_changes = 100;
  /// What a process has between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// A member that was not heard of for so long is lost.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(10);
  CoreBinding binding = CoreBinding::kDivide;
  /// The cards to divide; unset: CUDA_VISIBLE_DEVICES stays as it is.
  std::optional<std::vector<std::string>> gpus = std::nullopt;
  OutputOptions output = {};
  /// Handed to the processes, and asked of them; unset: loopback only.
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The executable that serves kShimCommand.
  std::string shim = "/proc/self/exe";
};

/// How one process of a job failed, and what the others did then.
struct Failure {
  int rank = 0;
  ExitStatus status;
  std::string reason;  ///< "exit code 1", "signal 9 (SIGKILL)", "was not heard of for 10 s"
  std::chrono::milliseconds after{0};  ///< since the processes were started
  int generation = 0;
  std::vector<std::string> last_lines;
  std::vector<std::string> others;  ///< a line each: "rank 1: ran; last said: step 12"
};

/// For people: several lines.
std::string to_string(const Failure& failure);

struct JobResult {
  /// 0 done, 130 SIGINT, 75 saved after SIGTERM, 2 wrong usage, else the failing process's own.
  int exit_code = 0;
  int restarts = 0;
  int membership_changes = 0;
  int processes = 0;              ///< in the last generation
  std::vector<Failure> failures;  ///< the first of each generation that failed
};

/// Starts the processes of a job on this host, gives them a place to meet, passes on what they
/// write, and stays until all have ended. No process is left behind, however this one ends.
///
/// Each process finds in its environment who it is (cluster/launch_environment.h). When the first
/// fails, the others get SIGTERM and, after the grace period, SIGKILL; then all are started again
/// as the next generation, or the job has failed. SIGINT and SIGTERM to the launcher go to all; a
/// second one kills.
///
/// While it runs, this thread's signals SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGUSR1 are its own.
/// Thread-safety: one job a process at a time, called before other threads are started.
JobResult run_job(const JobOptions& options, std::ostream& output, std::ostream& errors);

}  // namespace brigade::launch
