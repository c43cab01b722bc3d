#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <vector>

#include "brigade/launch/rank_process.h"

namespace brigade::launch {

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
