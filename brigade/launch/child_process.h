#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/exit_status.h"
#include "brigade/launch/file_descriptor.h"
#include "brigade/machine/core_set.h"

namespace brigade::launch {

struct SpawnOptions {
  /// The program and its arguments.
  std::vector<std::string> command;
  /// Set in its environment, in place of what is there; nothing: not to be there.
  std::map<std::string, std::optional<std::string>> environment = {};
  /// Inherited as a file, under kKeyDescriptor; unset: none.
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// Where it may run; empty: anywhere.
  machine::CoreSet cores = {};
  /// The executable that becomes the shim: one that hands `launch-shim` on to `run_shim`.
  std::string shim = "/proc/self/exe";
};

/// A program that runs below a shim (see shim.h), with its standard output and error as pipes and
/// its input closed. What the handle's owner cannot forget: when the handle goes, or its process
/// ends however it may, the program and everything below it are killed.
///
/// Thread-safety: one thread at a time.
class ChildProcess {
 public:
  /// Throws kNotFound where the program is no file that can be run, kUnavailable where the system
  /// starts no process.
  explicit ChildProcess(const SpawnOptions& options);
  /// Kills it if it still runs, and waits for that.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// The shim's: signals sent to it reach the program.
  pid_t pid() const { return pid_; }
  /// Readable without blocking, until their end.
  const FileDescriptor& output() const { return output_; }
  const FileDescriptor& errors() const { return errors_; }

  /// Nothing happens to a process that has ended.
  void signal(int number) const;
  /// Kills the program and everything below it.
  void kill();
  /// How it ended, once it has; does not wait.
  std::optional<ExitStatus> poll();

 private:
  pid_t pid_ = -1;
  FileDescriptor lifeline_;
  FileDescriptor output_;
  FileDescriptor errors_;
  std::optional<ExitStatus> status_;
};

}  // namespace brigade::launch
