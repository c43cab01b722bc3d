#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/cluster/membership.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/rpc/rendezvous.h"

namespace brigade::distribute {

/// The processes that train one model together, as one of them sees them: their membership, the
/// communicator that exchanges tensors between them, and how many replicas each has.
///
/// Thread-safety: a value; its communicator serves one thread at a time.
struct WorkerGroup {
  std::shared_ptr<cluster::Membership> membership;
  std::shared_ptr<comm::ProcessCommunicator> communicator;
  comm::ProcessLayout layout;
  /// The minimum size of a gradient bucket in bytes; 0: one bucket for all; unset: tuned by trial.
  std::optional<std::int64_t> bytes_per_pack = 0;
  /// [device of this process]: how many logical replicas it computes; empty: one replica each.
  std::vector<int> replicas_of_device = {};
  /// With logical replicas on CPUs: `device::arithmetic_fingerprint`, equal in all workers.
  std::string arithmetic = {};
  /// The options that the strategy was given: the transport of tensors on GPUs, and timeouts.
  comm::CommunicationOptions communication = {};

  int count() const { return static_cast<int>(layout.replicas.size()); }
  int index() const { return layout.process; }
  bool is_chief() const { return layout.process == 0; }
};

struct WorkerGroupOptions {
  /// The number of this process's devices, which are its replicas unless there are logical ones.
  /// Workers may have different numbers.
  int devices = 1;
  /// The number of logical replicas of all workers (`MultiWorkerMirroredOptions`); 0: none.
  int logical_replicas = 0;
  int threads_per_replica = 1;
  /// `MultiWorkerMirroredOptions::audit_every`.
  int audit_every = 0;
  /// The workers compute the stages of so many pipelines, equally many workers each, those of the
  /// first pipeline first. All workers of one run the same logical replicas, a contiguous block of
  /// all. 0: each worker has replicas of its own.
  int pipelines = 0;
  /// More that must be equal in all workers.
  comm::Facts facts = {};
  /// Makes the communicator of all workers. Unset: `comm::make_process_communicator`.
  std::function<std::shared_ptr<comm::ProcessCommunicator>(
      const std::shared_ptr<cluster::Membership>&, const comm::CommunicationOptions&)>
      communicator = {};
  /// What must be equal in all workers, as must be the versions of Brigade and libtorch.
  bool on_cpu = true;
  std::uint64_t seed = 0;
  comm::CommunicationOptions communication = {};
  /// How long to wait for the others' facts; the cluster's key.
  rpc::JoinOptions join = {};
};

/// The group of the processes of a membership; null if there is only one. Returns when all have
/// exchanged what they are. Throws kFailedPrecondition, naming both workers, if they disagree, or,
/// with logical replicas, if their processors compute with other bits.
std::shared_ptr<const WorkerGroup> make_worker_group(
    std::shared_ptr<cluster::Membership> membership, const WorkerGroupOptions& options);

/// The indices of this process's replicas among all replicas; decides how batches are split.
struct ReplicaRange {
  int first = 0;  ///< the index of this process's first replica
  int local = 1;  ///< the number of this process's replicas
  int total = 1;  ///< the number of replicas of all processes
};

/// Texts for the error message: "optimizers", "make the same optimizer in every worker".
struct Compared {
  std::string_view what;
  std::string_view advice;
};

/// Checks that options which must be equal in all workers are equal. Workers that compute different
/// updates would end with different weights, and workers that count steps differently would wait
/// for each other forever. Call it wherever a program passes such options; include every option
/// that decides values or collective calls, and leave out options that may differ (paths, logging).
///
/// A collective of the workers, outside of `Strategy::run`; does nothing if `workers` is null.
/// Throws kInvalidArgument in every worker if a fact of one worker differs from worker 0's, naming
/// the first such fact, both workers and both values.
void check_agreement(const WorkerGroup* workers, const comm::Facts& own, const Compared& compared);

}  // namespace brigade::distribute
