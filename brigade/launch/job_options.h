#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_key.h"
#include "brigade/launch/line_router.h"
#include "brigade/launch/roles.h"

namespace brigade::launch {

/// Whether each process is pinned to its own part of the host's cores.
enum class CoreBinding { kDivide, kNone };

/// Whether the processes of a job depend on each other.
enum class Coupling {
  kTogether,    ///< they train one model: if one fails, all stop
  kIndependent  ///< each has its own work and is restarted alone
};

/// The limits on the number of processes of an elastic job.
struct ElasticRange {
  int min = 1;
  int max = 1;
};

/// The hosts of a job and the index of this one. Each host has one launcher.
struct HostOptions {
  int count = 1;
  int index = 0;  ///< from 0; ranks are numbered host by host
  /// "host:port" on which the launcher of host 0 listens.
  std::string rendezvous = {};
  /// How long to wait until all launchers have joined.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
};

/// Options of a job: what runs, on which hosts, and what happens after a failure.
struct JobOptions {
  /// The program and its arguments. {rank} and {world_size} are replaced by the numbers.
  std::vector<std::string> command;
  /// The number of processes on this host. Hosts may differ.
  int processes = 1;
  /// All hosts of the job; by default this one alone.
  HostOptions hosts = {};
  /// Additional arguments for each process of this host; empty: none. Not with `elastic`.
  std::vector<std::vector<std::string>> arguments_by_rank = {};
  /// Whether a failure ends all processes, or one.
  Coupling coupling = Coupling::kTogether;
  /// The processes are the tasks of a job with parameter servers, `num_processes_on` this host of
  /// them, each with its `TF_CONFIG`. One that fails is restarted alone; if it may not be, the job
  /// has failed. Unset: processes are ranks.
  std::optional<Roles> roles = std::nullopt;
  /// How often the job is restarted after a failure, or its processes together, if they are
  /// restarted alone. A process that ended with wrong usage (2) is not restarted.
  int max_restarts = 0;
  /// Lets the job continue from its last checkpoint without a lost process (killed or silent), as
  /// long as the minimum is left. SIGUSR1 to the launcher adds a process: all processes save
  /// (SIGTERM) and are restarted. Unset: a loss is a failure.
  std::optional<ElasticRange> elastic = std::nullopt;
  /// How often the number of processes may change or a process may ask for a restart (exit code
  /// 75). These do not count as failures.
  int max_membership_changes = 100;
  /// The time between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// A member that has been silent for this long is lost.
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(8);
  /// Whether the cores of the host are divided among the processes.
  CoreBinding binding = CoreBinding::kDivide;
  /// The GPUs to divide among the processes; unset: CUDA_VISIBLE_DEVICES stays as it is.
  std::optional<std::vector<std::string>> gpus = std::nullopt;
  /// The fraction of the memory of each of its GPUs that a process may use, above 0 and up to 1.
  /// Only programs built with Brigade respect it. Unset: all.
  std::optional<double> gpu_memory_fraction = std::nullopt;
  /// What happens to the processes' output.
  OutputOptions output = {};
  /// The cluster key, which the processes get and must show, unless they are independent. Unset: a
  /// job on one host gets a new key; a job on several hosts, which must all have the same key, has
  /// none, and then nothing listens or connects beyond loopback.
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The loopback port that serves /healthz and /metrics; 0 takes a free port and logs it.
  std::optional<int> status_port = std::nullopt;
  /// The executable that handles kShimCommand.
  std::string shim = "/proc/self/exe";
};

/// How messages name a process: "rank 1", or with roles "worker:1".
std::string process_name(const JobOptions& options, int rank);

/// Throws kInvalidArgument, naming the inconsistent option.
void check(const JobOptions& options);
/// Checks the ranks whose output is shown, for a job with `world_size` processes on all hosts.
void check_shown_ranks(const JobOptions& options, int world_size);

}  // namespace brigade::launch
