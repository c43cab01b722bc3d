#pragma once

#include <vector>

#include "brigade/launch/exit_status.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/line_router.h"
#include "brigade/launch/standard_output.h"

namespace brigade::launch {

/// How a job ended.
struct JobResult {
  /// 0 done, 130 SIGINT, 75 stopped by SIGTERM, 2 wrong usage; otherwise that of the first process
  /// that failed: its exit code, or 128 + its signal. 1 if all succeeded but output was lost.
  int exit_code = 0;
  bool was_stopped = false;  ///< by a signal
  int restarts = 0;
  int membership_changes = 0;
  int processes = 0;                  ///< in the last generation
  std::vector<RankFailure> failures;  ///< the first failure of each failed generation
  /// Incomplete files in OutputOptions::directory.
  std::vector<LostOutput> lost_output;
};

/// Starts the processes of a job on this host, serves their rendezvous, passes on their output, and
/// returns when all have ended. No process outlives this one, however it ends.
///
/// Environment variables tell each process its rank (cluster/environment_variables.h). When one
/// fails, the others get SIGTERM and, after the grace period, SIGKILL; then all are restarted as
/// the next generation, or the job has failed. SIGINT and SIGTERM to the launcher are forwarded to
/// all processes; a second one kills them.
///
/// While it runs, it handles SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGUSR1 of this thread, and the
/// log is written through `output`. Throws kInvalidArgument for inconsistent options, and as
/// ChildProcess if a process cannot be started.
///
/// Thread-safety: run one job per process at a time, before other threads are started (except
/// those of `output`, which block signals).
JobResult run_job(const JobOptions& options, StandardOutput& output);

}  // namespace brigade::launch
