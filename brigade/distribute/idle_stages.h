#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "brigade/concurrency/stage_slots.h"
#include "brigade/machine/core_set.h"

namespace brigade::distribute {

/// The threads that compute for the devices of a pipeline when these have no pass to compute: one
/// for each device, which sleeps otherwise. What they do is libtorch's computing alone, without
/// gradients and outside of replicas.
///
/// Thread-safety: made and destroyed while no step runs.
class IdleStages {
 public:
  /// `threads`: of one tensor operation. `cores`: [device], to which its thread is pinned; empty:
  /// none is.
  IdleStages(std::shared_ptr<concurrency::StageSlots> slots, int devices, int threads,
             const std::vector<machine::CoreSet>& cores);
  /// Joins the threads.
  ~IdleStages();
  IdleStages(const IdleStages&) = delete;
  IdleStages& operator=(const IdleStages&) = delete;

 private:
  const std::shared_ptr<concurrency::StageSlots> slots_;
  std::vector<std::thread> threads_;  // [device]
};

}  // namespace brigade::distribute
