#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/line_router.h"

namespace brigade::launch {

/// Whether each process keeps to its own part of the host's cores.
enum class CoreBinding { kDivide, kNone };

/// What the processes of a job have to do with each other.
enum class Coupling {
  kTogether,    ///< they train one thing: where one fails, all stop
  kIndependent  ///< each has work of its own, does not know of the others, and is restarted alone
};

/// Between how many processes a job may run.
struct ElasticRange {
  int min = 1;
  int max = 1;
};

/// Where this launcher stands among those of a job on several hosts, one on each.
struct HostOptions {
  int count = 1;
  int index = 0;  ///< from 0; ranks are counted host by host
  /// "host:port" of the launcher of host 0, which listens there.
  std::string rendezvous = {};
  /// How long to wait until all have come.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
};

struct JobOptions {
  /// The program and its arguments. In them {rank} and {world_size} stand for the numbers.
  std::vector<std::string> command;
  /// On this host; each host has its own number.
  int processes = 1;
  HostOptions hosts = {};
  /// More arguments, for each process of this host its own; empty: none. Not with `elastic`.
  std::vector<std::vector<std::string>> arguments_by_rank = {};
  Coupling coupling = Coupling::kTogether;
  /// How often the job (of independent processes: one of them) is started again after a process has
  /// failed. A process that ended with wrong usage (2) is not tried again.
  int max_restarts = 0;
  /// A process that is lost (killed, not heard of) is done without, as long as so many are left;
  /// the job goes on with the others from its last checkpoint. SIGUSR1 to the launcher takes one
  /// more in, at the next boundary: all save (SIGTERM), and begin again. Unset: a loss is a
  /// failure.
  std::optional<ElasticRange> elastic = std::nullopt;
  /// How often the number of processes may change, and how often processes that saved and asked for
  /// a restart (75) get one. Not counted as failures.
  int max_membership_changes = 100;
  /// What a process has between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// A member that was not heard of for so long is lost.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  CoreBinding binding = CoreBinding::kDivide;
  /// The cards to divide; unset: CUDA_VISIBLE_DEVICES stays as it is.
  std::optional<std::vector<std::string>> gpus = std::nullopt;
  /// What each process may have of the memory of each of its cards, above 0 and up to 1; only
  /// programs made with Brigade keep to it. Unset: all.
  std::optional<double> gpu_memory_fraction = std::nullopt;
  OutputOptions output = {};
  /// Handed to the processes, and asked of them, unless they are independent. Unset: one is made
  /// for the job; on several hosts, which must all have the same, there is none then, and nothing
  /// goes beyond loopback.
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// Where /healthz and /metrics are answered, on loopback; 0 takes a free port and says which.
  std::optional<int> status_port = std::nullopt;
  /// The executable that serves kShimCommand.
  std::string shim = "/proc/self/exe";
};

/// Throws kInvalidArgument, naming what does not fit.
void check(const JobOptions& options);
/// The same for the ranks that are shown, of a job that has so many processes on all its hosts.
void check_shown_ranks(const JobOptions& options, int world_size);

}  // namespace brigade::launch
