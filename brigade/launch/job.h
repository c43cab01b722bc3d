#pragma once

#include <ostream>
#include <vector>

#include "brigade/launch/failure.h"
#include "brigade/launch/job_options.h"

namespace brigade::launch {

struct JobResult {
  /// 0 done, 130 SIGINT, 75 stopped by SIGTERM, 2 wrong usage, else the first failing process's
  /// own: its code, or 128 and its signal.
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
/// Throws kInvalidArgument for options that do not fit, and as ChildProcess where a process cannot
/// be started. Thread-safety: one job a process at a time, called before other threads are started.
JobResult run_job(const JobOptions& options, std::ostream& output, std::ostream& errors);

}  // namespace brigade::launch
