#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "brigade/concurrency/stage_slots.h"
#include "brigade/machine/core_set.h"

namespace brigade::distribute {

/// The threads that compute for the devices of a pipeline while these are idle
/// (`StageSlots::run_worker`): one for each device. They compute tensors without gradients, outside
/// of replicas.
///
/// Thread-safety: made and destroyed while no step runs.
class IdleStages {
 public:
  /// `threads`: of one tensor operation. `cores`: [device], the cores that its thread is pinned to;
  /// empty: none is pinned.
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
