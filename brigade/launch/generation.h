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

  /// Starts a process for each element, the first as `first_rank`. Throws as ChildProcess; those
  /// that were started already are killed then.
  Generation(const std::vector<SpawnOptions>& processes, int first_rank, LineRouter& router,
             std::chrono::milliseconds grace);

  /// Those of the past too, where some were started again.
  std::deque<RankProcess>& processes() { return processes_; }
  const std::deque<RankProcess>& processes() const { return processes_; }
  /// The newest one of this rank; nullptr for a rank that is elsewhere.
  RankProcess* find(int rank);
  const RankProcess* find(int rank) const;
  bool is_over() const;
  Clock::time_point started() const { return started_; }

  /// Starts one more of this rank, in place of one that has ended and is drained.
  void start_again(int rank, const SpawnOptions& options);

  void add_to(std::vector<pollfd>& waiting) const;
  void pass_on_output();
  /// Whether all output is passed on, and nobody can write any more.
  bool is_drained() const;
  /// The rank writes no more: what is left of its last line comes out.
  void end_output(int rank) { router_.end(rank); }

  /// Sends `signal` to all that run; what still runs after the grace period is killed.
  void stop(int signal);
  bool is_stopping() const { return is_stopping_; }
  /// When somebody has to be killed; max for never.
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
