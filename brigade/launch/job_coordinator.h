#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brigade/launch/exit_status.h"
#include "brigade/launch/job_options.h"
#include "brigade/launch/message.h"
#include "brigade/launch/role_course.h"

namespace brigade::launch {

/// Finds out which process failed first. When one process dies, the others soon fail because of
/// it, and may even be seen to end earlier, while the shim of the first still cleans up. The order
/// in which the rendezvous lost its members resolves this.
///
/// Thread-safety: one thread at a time.
class FirstFailureFinder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A member's connection broke, or it left. Its exit status will show whether it failed.
  void record_lost(int rank);
  /// A process ended, with or without a failure.
  void record_end(int rank, const ExitStatus& status, Time now);

  /// Whether a failure is known, even if it is not decided yet which one was first.
  bool has_failed() const { return !failures_.empty(); }
  /// The rank that failed first, once that is certain enough: at most three seconds after the
  /// first failure, waiting for the ends of members that were lost earlier.
  std::optional<int> rank(Time now) const;
  /// The time at which `rank` is decided at the latest.
  Time decided_at() const;

 private:
  struct End {
    ExitStatus status;
    Time when;
  };
  std::vector<int> lost_ranks_;  // in order of loss, until the first failure
  std::set<int> ended_;
  std::map<int, End> failures_;
  std::optional<Time> first_seen_;
};

/// Makes the decisions of a job: which process failed first, when all stop, whether they are
/// restarted, and the exit code. It receives the launchers' reports and sends orders to all
/// launchers. It neither starts processes nor waits nor prints.
///
/// Thread-safety: one thread at a time.
class JobCoordinator {
 public:
  using Time = FirstFailureFinder::Time;
  using Order = std::function<void(const Message&)>;

  /// `processes` is the number of processes of each host at the start. `order` is called with each
  /// order; a StartOrder has no addresses yet.
  JobCoordinator(const JobOptions& options, std::vector<int> processes, Order order);

  /// Orders the first generation. For a job that continues, pass the number of its next generation
  /// and the restarts so far.
  void begin(int generation = 0, const JobSummary& so_far = {});
  /// Handles a report; ignores its own orders. Messages that were received together get the same
  /// `now`.
  void handle(const Message& message, Time now);
  /// The rank of this generation left the processes' rendezvous or was lost there. Its exit status
  /// will follow.
  void record_lost(int generation, int rank);
  /// Makes decisions that are due by now. Call it after all messages that were received together.
  void advance(Time now);
  /// When `advance` must be called; max for never.
  Time next_deadline() const;

 private:
  enum class Stop { kNo, kFailure, kSignal, kResize };

  void on(const RankEnded& ended, Time now);
  /// Of a job with roles that is not being stopped: decides whether the process is restarted.
  void on_task_ended(const RankEnded& ended, Time now);
  bool follows_from_stop(const RankEnded& ended) const;
  bool may_restart(const RankEnded& ended) const;
  void restart(const RankEnded& ended);
  void release(const RankEnded& ended, EndKind kind, Time now);
  /// Ends processes with roles that the job no longer needs.
  void dismiss(Time now);
  void give(RoleCourse::Order order, const std::function<bool(int)>& is_meant);
  void on(const RankLost& lost, Time now);
  void on(const SignalReceived& came, Time now);
  void on(const HostFinished& over, Time now);
  template <class Other>
  void on(const Other&, Time) {}

  void grow();
  void name(int rank, const ExitStatus& status, const std::string& reason);
  void stop(Stop why, int signal);
  void decide();
  void after_signal();
  void after_failure();
  void resize(int change, const std::string& note);
  void start(const std::string& note);
  void finish(int exit_code);
  JobSummary summary(const std::string& note) const;
  int num_processes() const;

  const JobOptions& options_;
  const Order order_;
  std::vector<int> processes_;  // by host
  int restarts_ = 0;
  int membership_changes_ = 0;
  int generation_ = -1;

  // Of this generation.
  Stop stop_ = Stop::kNo;
  int received_ = 0;
  std::optional<RoleCourse> course_;  // with roles
  int stop_signal_ = 0;
  std::set<int> signaled_;  // hosts
  FirstFailureFinder first_failure_;
  std::map<int, ExitStatus> ended_;          // by rank
  std::optional<NameFailureOrder> failure_;  // as ordered
  bool reports_failure_ = false;
  std::set<int> finished_hosts_;  // hosts
  bool all_done_ = true;
  int independent_code_ = 0;  // of the first process that failed while the job continued
};

}  // namespace brigade::launch
