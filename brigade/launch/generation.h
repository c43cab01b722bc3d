#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "brigade/launch/child_process.h"
#include "brigade/launch/line_router.h"

namespace brigade::launch {

/// One process of a job, as its launcher sees it: its output and its exit status.
///
/// Thread-safety: one thread at a time.
class RankProcess {
 public:
  /// Starts it. Throws as ChildProcess.
  RankProcess(int rank, const SpawnOptions& options);

  int rank() const { return rank_; }
  /// The process id of its shim.
  pid_t pid() const { return process_.pid(); }
  const std::optional<ExitStatus>& ended() const { return ended_; }
  bool is_running() const { return !ended_; }
  /// Whether `kill` was called before it had ended.
  bool was_killed() const { return was_killed_; }

  void signal(int number) const { process_.signal(number); }
  /// Whether a signal had reached its program when it ended.
  bool was_asked() { return process_.was_signaled(); }
  /// Kills it and all its descendants.
  void kill();

  /// Adds the descriptors of its output.
  void add_to(std::vector<pollfd>& waiting) const;
  /// Passes on what it has written: a bounded amount per call, so that other processes get their
  /// turn, and nothing while the router is busy.
  void pass_on(LineRouter& router);
  /// Whether all output is passed on and no process can write any more.
  bool is_drained() const { return !is_open_[0] && !is_open_[1]; }
  /// Returns true once, when the process has ended.
  bool notice_end();

 private:
  void pass_on(LineRouter& router, Stream stream);

  int rank_;
  ChildProcess process_;
  bool is_open_[2] = {true, true};  // by stream
  std::optional<ExitStatus> ended_;
  bool was_killed_ = false;
};

/// The processes of one start of a job, until all of them have ended.
///
/// Thread-safety: one thread at a time.
class Generation {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts a process for each element, the first as `first_rank`. Throws as ChildProcess does;
  /// then the processes already started are killed.
  Generation(const std::vector<SpawnOptions>& processes, int first_rank, LineRouter& router,
             std::chrono::milliseconds grace);

  /// All processes, including those that have been replaced by a restart.
  std::deque<RankProcess>& processes() { return processes_; }
  const std::deque<RankProcess>& processes() const { return processes_; }
  /// The newest process of this rank; nullptr for a rank of another host.
  RankProcess* find(int rank);
  const RankProcess* find(int rank) const;
  bool is_over() const;
  Clock::time_point started() const { return started_; }

  /// Restarts this rank, whose process has ended and is drained.
  void start_again(int rank, const SpawnOptions& options);

  void add_to(std::vector<pollfd>& waiting) const;
  void pass_on_output();
  /// Whether all output is passed on and no process can write any more.
  bool is_drained() const;
  /// Flushes the rest of the rank's last line: it writes no more.
  void end_output(int rank) { router_.end(rank); }

  /// Sends `signal` to all running processes; those still running after the grace period are
  /// killed.
  void stop(int signal);
  /// The same, but sends it only to these ranks.
  void stop_some(const std::function<bool(int rank)>& is_meant, int signal);
  bool is_stopping() const { return is_stopping_; }
  /// When the grace period ends; max without one.
  Clock::time_point kill_at() const { return kill_at_; }
  void kill_overdue();
  void kill_all();

 private:
  LineRouter& router_;
  const std::chrono::milliseconds grace_;
  const Clock::time_point started_ = Clock::now();
  std::deque<RankProcess> processes_;
  bool is_stopping_ = false;
  Clock::time_point kill_at_ = Clock::time_point::max();
};

}  // namespace brigade::launch
