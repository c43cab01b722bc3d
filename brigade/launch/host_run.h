#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/launch/rank_failure.h"
#include "brigade/launch/generation.h"
#include "brigade/launch/hosts.h"
#include "brigade/launch/job_status.h"
#include "brigade/launch/restart_policy.h"
#include "brigade/launch/message.h"
#include "brigade/launch/stall_detector.h"
#include "brigade/launch/sweep.h"

namespace brigade::launch {

/// The processes of a job on this host, generation after generation: starts and stops them as the
/// coordinator orders, reports how they end, and knows what is to be told of the one that failed.
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
  /// SIGKILL kills at once.
  void stop(int signal);

  /// Whether processes of this host run, or what they wrote is still passed on.
  bool is_running() const { return generation_ && !is_end_reported_; }
  void add_to(std::vector<pollfd>& waiting) const;
  /// When `advance` is due, whatever happens; max for never.
  Clock::time_point next_deadline() const;
  /// Passes on output, reports ends and standstills, kills whose time is over.
  void advance();

  /// The failure that the coordinator named in the generation that is over.
  const std::optional<RankFailure>& failure() const { return failure_; }
  /// Restarts of processes that have nothing to do with each other, and their failures.
  const RestartPolicy& restart_policy() const { return restart_policy_; }
  /// Generation, and ranks that run.
  JobStatus status() const;

 private:
  bool is_independent() const { return options_.coupling == Coupling::kIndependent; }
  std::vector<SpawnOptions> plan(const StartOrder& order) const;
  /// A process that is started again when what it wrote is passed on.
  struct Restart {
    int rank = 0;
    std::size_t process = 0;  // the one that has ended, by index
    Clock::time_point deadline;
  };
  void begin_sweep();
  void collect_ends();
  void handle_independent_end(std::size_t index);
  void start_again();
  void check_for_stalls();
  void finish();
  void report_end();
  RankFailure describe(const RankProcess& failed, const ExitStatus& status,
                   const std::string& reason) const;

  const JobOptions& options_;
  Hosts& hosts_;
  LineRouter& router_;
  const std::vector<pid_t> unrelated_children_;  // children that this process had before
  RestartPolicy restart_policy_;
  StallDetector stall_detector_;
  Sweep sweep_;

  // Of this generation.
  StartOrder order_;
  int first_rank_ = 0;
  std::vector<SpawnOptions> plan_;
  std::unique_ptr<Generation> generation_;
  std::optional<RankFailure> failure_;
  std::vector<Restart> restarts_;
  bool needs_early_sweep_ = false;                  // before the end
  bool needs_sweep_ = false;                        // at the end
  std::optional<Clock::time_point> drained_until_;  // set when all have ended and are swept
  bool is_end_reported_ = false;
};

/// Which host has this rank, where they have so many processes.
int host_of(int rank, const std::vector<int>& processes);

}  // namespace brigade::launch
