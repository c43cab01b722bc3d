#pragma once

#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "brigade/launch/exit_status.h"
#include "brigade/launch/generation.h"
#include "brigade/launch/hosts.h"
#include "brigade/launch/job_status.h"
#include "brigade/launch/message.h"
#include "brigade/launch/process_tree.h"
#include "brigade/launch/stall_detector.h"

namespace brigade::launch {

/// The restarts and failures of independent processes, each of which this host restarts alone,
/// within the job's limits. Of processes with roles: only the failures.
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
  /// With roles: restart this process, or not, as the coordinator has decided. Orders for processes
  /// of other hosts are ignored.
  void restart(const RestartOrder& order);
  void release(const ReleaseOrder& order);
  void dismiss(const DismissOrder& order);
  /// SIGKILL kills immediately. With roles another signal goes to all but the servers.
  void stop(int signal);
  /// The same, but for a host that gets no more orders: its servers get the signal after half of
  /// the grace period, in which workers of other hosts may save with their help.
  void stop_without_orders(int signal);

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
  std::vector<SpawnOptions> plan(const StartOrder& order) const;
  /// A process that is restarted as soon as its output is passed on.
  struct Restart {
    int rank = 0;
    std::size_t process = 0;  // the one that has ended, by index
    Clock::time_point deadline;
  };
  void begin_sweep();
  void collect_ends();
  /// Of an independent process.
  void handle_end(std::size_t index);
  /// Whether an independent process that failed is restarted. Logs its failure.
  bool is_restarted(const RankProcess& process);
  bool may_restart(const RankProcess& process) const;
  void log_failure(const RankProcess& process);
  void start_again();
  /// The process with this rank has ended and will not be restarted after all.
  void give_up_restart(const Restart& restart);
  /// For the next process of this rank.
  SpawnOptions plan_again(int rank) const;
  /// Whether the coordinator still has to say what becomes of processes that have ended.
  bool is_undecided() const { return !undecided_.empty() && !generation_->is_stopping(); }
  void stop_servers();
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
  std::set<int>
      undecided_;  // with roles: ranks that have ended, until the coordinator has answered
  std::set<int> dismissed_;  // ranks that are not restarted any more
  // Of a host that gets no more orders: when its servers get the signal.
  std::optional<Clock::time_point> servers_stop_at_;
  int stop_signal_ = 0;
  bool needs_early_sweep_ = false;                  // before the end
  bool needs_sweep_ = false;                        // at the end
  std::optional<Clock::time_point> drained_until_;  // set when all have ended and are swept
  bool is_end_reported_ = false;
};

/// The host of a rank, given the number of processes of each host.
int host_of(int rank, const std::vector<int>& processes);

}  // namespace brigade::launch
