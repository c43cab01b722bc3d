#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/handles.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/exit_status.h"
#include "brigade/machine/core_set.h"

namespace brigade::launch {

struct SpawnOptions {
  /// The program and its arguments.
  std::vector<std::string> command;
  /// Variables to set or replace in its environment; nullopt removes the variable.
  std::map<std::string, std::optional<std::string>> environment = {};
  /// The process inherits it as a file, under the descriptor kKeyDescriptor. Unset: no key.
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The cores on which it may run; empty: all.
  machine::CoreSet cores = {};
  /// The executable that becomes the shim. It must call `run_shim` for the command `launch-shim`.
  std::string shim = "/proc/self/exe";
};

/// A program that runs below a shim (see shim.h), with its standard output and error as pipes and
/// its input closed. The program and all its descendants are killed when the handle is destroyed,
/// and also when the owning process ends in any way.
///
/// Thread-safety: one thread at a time.
class ChildProcess {
 public:
  /// Throws kNotFound if the program is not an executable file, kUnavailable if the system cannot
  /// start a process.
  explicit ChildProcess(const SpawnOptions& options);
  /// Kills the process if it still runs, and waits until it has ended.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// The process id of the shim. Signals sent to it reach the program.
  pid_t pid() const { return pid_; }
  /// Non-blocking pipes with what the program writes.
  const base::FileDescriptor& output() const { return output_; }
  const base::FileDescriptor& errors() const { return errors_; }

  /// Sends a signal. Does nothing if the process has ended.
  void signal(int number) const;
  /// Whether a signal was forwarded to the program before its end was seen.
  bool was_signaled();
  /// Kills the program and everything below it.
  void kill();
  /// The exit status once the process has ended. Does not wait.
  std::optional<ExitStatus> poll();

 private:
  pid_t pid_ = -1;
  base::FileDescriptor lifeline_;
  base::FileDescriptor output_;
  base::FileDescriptor errors_;
  std::optional<ExitStatus> status_;
  bool was_signaled_ = false;
};

}  // namespace brigade::launch
