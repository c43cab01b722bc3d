#pragma once

#include <chrono>
#include <optional>
#include <set>

#include "brigade/launch/roles.h"

namespace brigade::launch {

/// The course of a job with roles: which processes may be restarted, and which ones are no longer
/// needed. It decides only; neither starts nor signals processes.
///
/// Servers end by themselves when the training has ended. One that was restarted too late to know
/// that is asked to end, `grace` after the last worker, and killed after another `grace`. When the
/// job is stopped, servers are asked to end only after the workers, which save with their help.
///
/// The training has ended when the chief and all servers have succeeded. A worker that came too
/// late for it waits for servers in vain: it is asked to end, `grace` later, and killed after
/// another `grace`.
///
/// Thread-safety: one thread at a time.
class RoleCourse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What to do with the servers, or the workers, that still run.
  enum class Order { kNone, kSignal, kKill };

  RoleCourse(const Roles& roles, std::chrono::milliseconds grace) : roles_(roles), grace_(grace) {}

  /// A process has ended for good: it is not restarted.
  void record_end(int process, bool is_success, Time now);
  /// The job is being stopped.
  void record_stop() { is_stopping_ = true; }

  /// Whether the chief has ended with success, so that the training is done.
  bool is_chief_done() const { return is_chief_done_; }
  /// Whether this process may be restarted: after the chief's success only a server may, for
  /// workers that still run.
  bool may_restart(int process) const;
  /// Whether the chief and all servers have succeeded: how the other workers end does not matter.
  bool has_training_ended() const { return training_ended_.has_value(); }
  /// Whether the servers were asked to end.
  bool has_dismissed_servers() const { return servers_.kill_at.has_value(); }

  /// The order that is due by now. Each returns an order once.
  Order order_for_servers(Time now) { return servers_.next_order(servers_due(), now, grace_); }
  Order order_for_workers(Time now) { return workers_.next_order(workers_due(), now, grace_); }
  /// When the next order is due; max for never.
  Time next_deadline() const;

 private:
  /// The orders for processes that are no longer needed.
  struct Dismissal {
    std::optional<Time> kill_at;  // set when they are asked to end
    bool has_killed = false;

    /// When the next order is due, if the first one is at `first`; max for never.
    Time next_deadline(const std::optional<Time>& first) const;
    Order next_order(const std::optional<Time>& first, Time now, std::chrono::milliseconds grace);
  };
  /// When they are asked to end.
  std::optional<Time> servers_due() const;
  std::optional<Time> workers_due() const;

  const Roles roles_;
  const std::chrono::milliseconds grace_;
  std::set<int> ended_workers_;
  std::set<int> succeeded_servers_;
  std::optional<Time> workers_ended_;  // the last of them
  std::optional<Time> training_ended_;
  Dismissal servers_, workers_;
  bool is_chief_done_ = false;
  bool is_stopping_ = false;
};

}  // namespace brigade::launch
