#pragma once

#include <c10/core/Device.h>

#include <any>
#include <span>
#include <vector>

#include "brigade/distribute/input/batch_ops.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/input/split.h"

namespace brigade::distribute {

/// The parts of a global batch for the replicas `first`, `first + 1`, ... of `total`, in order, by
/// `input::split_sizes`. They are where the batch is, and may share its memory.
std::vector<std::any> parts_for(const BatchOps& ops, const std::any& batch,
                                const ReplicaRange& replicas);

/// `batch` with each tensor on `device`.
std::any to_device(const BatchOps& ops, const std::any& batch, c10::Device device);

/// Splits a global batch among the replicas of all workers, by `input::split_sizes`. Returns the
/// per-replica batches of this process, on their devices, with the counts of examples.
PerReplica<std::any> split_for_replicas(const BatchOps& ops, const std::any& batch,
                                        const ReplicaRange& replicas,
                                        std::span<const c10::Device> devices);

}  // namespace brigade::distribute
