#pragma once

#include "brigade/base/ambient.h"
#include "brigade/comm/communicator.h"
#include "brigade/device/carried_context.h"

namespace brigade::comm {

class StagePasses;

/// The replica that a thread runs, for code below the strategies: variables read this replica's
/// component, metrics update it. Installed by `Strategy::run`; absent outside it, in the
/// cross-replica context.
///
/// Thread-safety: each replica's own thread only.
struct Replica {
  int id = 0;        ///< 0 .. count-1, over all workers
  int count = 1;     ///< replicas in sync, over all workers
  int local_id = 0;  ///< among this process's replicas: the index of its component of each variable
  Communicator* communicator = nullptr;
  StagePasses* stages = nullptr;  ///< of a pipeline, whose micro-batch this is; otherwise null
  int first_id = 0;               ///< of this process's first replica
};

inline constexpr base::AmbientSlot<const Replica> kReplicaSlot{base::AmbientIndex::kReplica};

/// The replica that the calling thread runs, or computes for (autograd's thread of a card in the
/// replica's backward pass: `device::CarriedContext`); null in the cross-replica context.
inline const Replica* current_replica() {
  return device::carried(kReplicaSlot);
}

}  // namespace brigade::comm
