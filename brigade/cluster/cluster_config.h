#pragma once

#include <optional>
#include <string>

#include "brigade/cluster/cluster_spec.h"

namespace brigade::cluster {

/// The result of every resolver: what a process needs to know to join its cluster.
///
/// There are two kinds of cluster. If each task has its own address (`TF_CONFIG`, a file, flags),
/// `cluster` holds them, and the first training task serves the rendezvous at its address. If a
/// launcher only numbers processes (`brigade launch`, torchrun, Slurm, Open MPI), `cluster` is
/// empty, and only `rendezvous` is set.
///
/// Thread-safety: a value.
struct ClusterConfig {
  ClusterSpec cluster = {};
  /// The task of this process.
  Task task = {};
  /// The rank among the processes that train together; -1 for a parameter server or an evaluator.
  int rank = 0;
  /// The number of processes that train together. With 1, nothing listens and nothing is sent.
  int world_size = 1;
  /// "host:port" of the rendezvous; empty with a world size of 1.
  std::string rendezvous = {};
  /// Which process serves the rendezvous.
  enum class RendezvousHost {
    kFirstMember,  ///< the process of rank 0
    kLauncher      ///< the launcher, which was started earlier
  } rendezvous_host = RendezvousHost::kFirstMember;
  /// The rank among the processes of the host, if a launcher sets it.
  std::optional<int> local_rank = std::nullopt;
  std::optional<int> local_world_size = std::nullopt;
  /// How often the job was restarted. Members of different generations never join each other.
  int generation = 0;
  /// The source of this configuration, for messages: "TF_CONFIG", "the torchrun environment".
  std::string source = {};

  bool is_chief() const { return rank == 0; }
  bool is_evaluator() const { return task.job == "evaluator"; }
};

}  // namespace brigade::cluster
