#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/launch/exit_status.h"
#include "brigade/launch/generation.h"
#include "brigade/launch/hosts.h"
#include "brigade/launch/message.h"
#include "brigade/launch/process_tree.h"
#include "brigade/launch/role_course.h"
#include "brigade/launch/stall_detector.h"
#include "brigade/launch/status_server.h"

namespace brigade::launch {

/// The restarts and failures of processes of which each is restarted alone, within the job's
/// limits: independent ones, and those with roles.
struct IndependentResult {
  int restarts = 0;
  int membership_changes = 0;
  int code = 0;  ///< the exit code of the first process that was not restarted; 0 if there is none
  std::vector<RankFailure> failures;
};

/// The processes of a job on this host, over all generations: starts and stops them as the
/// coordinator orders, reports how they end, and describes the one that failed.
///
/// Thread-safety: one thread.
class HostRun {
 public:
  using Clock = Generation::Clock;

  /// All must outlive it.
  HostRun(const JobOptions& options, Hosts& hosts, LineRouter& router);

  /// Throws as ChildProcess.
  void begin(const StartOrder& order);
  void on_all_joined() { stall_detector_.on_all_joined(); }
  void name(const NameFailureOrder& order);
  /// SIGKILL kills immediately.
  void stop(int signal);

  /// Whether processes of this host run, or their output is still being passed on.
  bool is_running() const { return generation_ && !is_end_reported_; }
  void add_to(std::vector<pollfd>& waiting) const;
  /// When `advance` must be called at the latest; max for never.
  Clock::time_point next_deadline() const;
  /// Passes on output, reports processes that ended or stalled, and kills those whose grace period
  /// is over.
  void advance();

  /// The failure that the coordinator named in the last generation.
  const std::optional<RankFailure>& failure() const { return failure_; }
  const IndependentResult& independent() const { return independent_; }
  /// The generation and the ranks that run.
  JobStatus status() const;

 private:
  bool are_restarted_alone() const {
    return options_.coupling == Coupling::kIndependent || options_.roles;
  }
  std::vector<SpawnOptions> plan(const StartOrder& order) const;
  /// A process that is restarted as soon as its output is passed on.
  struct Restart {
    int rank = 0;
    std::size_t process = 0;  // the one that has ended, by index
    Clock::time_point deadline;
  };
  void begin_sweep();
  void collect_ends();
  /// Of one that is restarted alone.
  void handle_end(std::size_t index);
  /// Whether a process that failed is restarted alone. Logs its failure, or reports it to the
  /// coordinator if it ends the job.
  bool is_restarted(const RankProcess& process);
  bool may_restart(const RankProcess& process) const;
  void start_again();
  /// For the next process of this rank.
  SpawnOptions plan_again(int rank) const;
  /// Whether the job does not need a process that ended without success, so that this is no
  /// failure.
  bool is_dismissed(const RankProcess& process) const;
  /// Ends processes that the job no longer needs.
  void dismiss();
  /// To the ranks from `begin` up to `end`, which is excluded.
  void give(RoleCourse::Order order, int begin, int end, int signal);
  void check_for_stalls();
  void finish();
  void report_end();
  RankFailure describe(const RankProcess& failed, const ExitStatus& status,
                       const std::string& reason) const;

  const JobOptions& options_;
  Hosts& hosts_;
  LineRouter& router_;
  const std::vector<pid_t> unrelated_children_;  // children of this process from before the job
  IndependentResult independent_;
  StallDetector stall_detector_;
  DescendantSweep sweep_;

  // Of this generation.
  StartOrder order_;
  int first_rank_ = 0;
  std::vector<SpawnOptions> plan_;
  std::unique_ptr<Generation> generation_;
  std::optional<RankFailure> failure_;
  std::vector<Restart> restarts_;
  std::optional<RoleCourse> course_;                // with roles
  int stop_signal_ = 0;                             // the first
  bool needs_early_sweep_ = false;                  // before the end
  bool needs_sweep_ = false;                        // at the end
  std::optional<Clock::time_point> drained_until_;  // set when all have ended and are swept
  bool is_end_reported_ = false;
};

/// The host of a rank, given the number of processes of each host.
int host_of(int rank, const std::vector<int>& processes);

}  // namespace brigade::launch
