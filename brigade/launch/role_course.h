#pragma once

#include <chrono>
#include <optional>
#include <set>

#include "brigade/launch/roles.h"

namespace brigade::launch {

/// The course of a job with roles: which processes may be restarted, and when its servers are no
/// longer needed. It decides only; neither starts nor signals processes.
///
/// Servers end by themselves when the training has ended. One that was restarted too late to know
/// that is asked to end, `grace` after the last worker, and killed after another `grace`. When the
/// job is stopped, servers are asked to end only after the workers, which save with their help.
///
/// Thread-safety: one thread at a time.
class RoleCourse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What to do with the servers that still run.
  enum class ServerOrder { kNone, kSignal, kKill };

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
  /// Whether the servers were asked to end.
  bool has_dismissed_servers() const { return kill_at_.has_value(); }

  /// The order that is due by now. Returns each order once.
  ServerOrder next_order(Time now);
  /// When the next order is due; max for never.
  Time next_deadline() const;

 private:
  const Roles roles_;
  const std::chrono::milliseconds grace_;
  std::set<int> ended_workers_;
  std::optional<Time> workers_ended_;  // the last of them
  std::optional<Time> kill_at_;        // set when servers are asked to end
  bool is_chief_done_ = false;
  bool is_stopping_ = false;
  bool has_killed_ = false;
};

}  // namespace brigade::launch
