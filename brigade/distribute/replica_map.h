#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>

#include "brigade/base/random.h"

namespace brigade::distribute {

/// What a function on replicas' shares (`DistributedDataset::map_on_replica`) knows beside the
/// share. All random numbers in it, `rng`'s and those of tensor operations, are functions of (seed,
/// epoch, step, replica): the same however far ahead the share is made, and after a resume.
struct ReplicaMapContext {
  int replica;          ///< among those of all workers
  std::uint64_t epoch;  ///< of the dataset
  std::uint64_t step;   ///< of the epoch, counted from 0
  c10::Device device;   ///< where the share lies, and its work is queued
  base::CounterRng& rng;
};

/// Gives a share instead of `share`, of as many examples, which may be none; called by one thread
/// at a time. The tensors may share memory with the whole data set: make new ones.
template <class B>
using ReplicaMapFunction = std::function<B(B share, ReplicaMapContext& context)>;

/// Which share a function is called for.
struct ReplicaBatchId {
  std::uint64_t seed = 0;
  int replica = 0;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

/// Calls `body` without gradients and with the share's random numbers. What it throws, this throws,
/// with the share's place before its text.
void in_replica_map_context(const ReplicaBatchId& id, c10::Device device,
                      const std::function<void(ReplicaMapContext&)>& body);

/// To be called before other threads run tensor operations (see device::ReplicaGenerator).
void prepare_replica_map_contexts();

/// Throws kInvalidArgument if a function made `after` examples of `before`.
void check_example_count(std::int64_t before, std::int64_t after);

}  // namespace brigade::distribute
