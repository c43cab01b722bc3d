#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

#include "brigade/base/random.h"

namespace brigade::distribute {

/// What the function of `DistributedDataset::map_on_replica` knows about the batch that it is
/// called with. All its random numbers, those of `rng` and those of tensor operations, are
/// functions of (seed, epoch, step, replica): they depend neither on how far ahead the batch is
/// made nor on whether training was resumed.
struct ReplicaMapContext {
  int replica;          ///< its index among the replicas of all workers
  std::uint64_t epoch;  ///< of the dataset
  std::uint64_t step;   ///< of the epoch, counted from 0
  c10::Device device;   ///< where the batch is, and where the work is queued
  base::CounterRng& rng;
};

/// Maps a per-replica batch to another with the same number of examples, which may be 0. Called by
/// one thread at a time. The tensors may share memory with the whole data set: return new tensors
/// instead of changing these in place.
template <class B>
using ReplicaMapFunction = std::function<B(B batch, ReplicaMapContext& context)>;

/// Identifies the per-replica batch that a function is called with.
struct ReplicaBatchId {
  std::uint64_t seed = 0;
  int replica = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

/// Calls `body` without gradients and with the batch's random numbers. Rethrows its exceptions with
/// the replica, step and epoch before the text.
void in_replica_map_context(const ReplicaBatchId& id, c10::Device device,
                            const std::function<void(ReplicaMapContext&)>& body);

/// Must be called before other threads run tensor operations (see device::ReplicaGenerator).
void prepare_replica_map_contexts();

/// Throws kInvalidArgument unless `after`, the number of examples that a function returned, equals
/// `before`, the number that it was given.
void check_example_count(std::int64_t before, std::int64_t after);

}  // namespace brigade::distribute
