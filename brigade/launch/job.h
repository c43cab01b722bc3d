#pragma once

#include <vector>

#include "brigade/launch/rank_failure.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/line_router.h"
#include "brigade/launch/standard_output.h"

namespace brigade::launch {

struct JobResult {
  /// 0 done, 130 SIGINT, 75 stopped by SIGTERM, 2 wrong usage, else the first failing process's
  /// own: its code, or 128 and its signal; 1 where all ended well, but output was lost.
  int exit_code = 0;
  bool was_stopped = false;  ///< by a signal
  int restarts = 0;
  int membership_changes = 0;
  int processes = 0;              ///< in the last generation
  std::vector<RankFailure> failures;  ///< the first of each generation that failed
  /// Files of OutputOptions::directory that lack something.
  std::vector<LostOutput> lost_output;
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
/// Throws kInvalidArgument for options that do not fit, and as ChildProcess where a process cannot
/// be started. The log goes through `output` meanwhile.
///
/// Thread-safety: one job a process at a time, called before other threads are started (the
/// output's excepted, which take no signals).
JobResult run_job(const JobOptions& options, StandardOutput& output);

}  // namespace brigade::launch
