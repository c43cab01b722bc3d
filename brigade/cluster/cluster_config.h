#pragma once

#include <optional>
#include <string>

#include "brigade/cluster/cluster_spec.h"

namespace brigade::cluster {

/// What one process has to know to find its cluster: what every resolver returns.
///
/// Two kinds of cluster come out of them. Where each task has an address of its own (`TF_CONFIG`, a
/// file, flags), `cluster` is full and the first training task holds the meeting point at its
/// address. Where a launcher only counts processes (`brigade launch`, torchrun, Slurm, Open MPI),
/// `cluster` is empty, and `rendezvous` is where they meet.
///
/// Thread-safety: a value.
struct ClusterConfig {
  ClusterSpec cluster = {};
  /// Who this process is.
  Task task = {};
  /// Its rank among the processes that train together; -1 for a parameter server or an evaluator.
  int rank = 0;
  /// How many train together. 1 is a cluster of one: nothing listens and nothing is sent.
  int world_size = 1;
  /// "host:port" where the members meet; empty in a cluster of one.
  std::string rendezvous = {};
  /// Who listens there.
  enum class RendezvousHost {
    kFirstMember,  ///< the process of rank 0
    kLauncher      ///< somebody who was there before
  } rendezvous_host = RendezvousHost::kFirstMember;
  /// Its place among the processes of its host, where a launcher says so.
  std::optional<int> local_rank = std::nullopt;
  std::optional<int> local_world_size = std::nullopt;
  /// How often the job was started again; members of different generations never meet.
  int generation = 0;
  /// Where this was read, for messages: "TF_CONFIG", "the torchrun environment".
  std::string source = {};

  bool is_chief() const { return rank == 0; }
  bool is_evaluator() const { return task.job == "evaluator"; }
};

}  // namespace brigade::cluster
