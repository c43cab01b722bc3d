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

}  // namespace brigade::distribute
