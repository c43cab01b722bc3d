#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "brigade/launch/child_process.h"
#include "brigade/launch/exit_status.h"
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

}  // namespace brigade::launch
