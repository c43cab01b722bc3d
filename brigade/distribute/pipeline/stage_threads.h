#pragma once

#include <vector>

#include "brigade/concurrency/task_threads.h"
#include "brigade/machine/core_set.h"

namespace brigade::distribute {

/// Keeps the threads of a pipeline's micro-batches on the cores of the devices that they get. The
/// system would wake a thread on the core on which it slept, or on that of the thread that woke it,
/// and both may compute another stage while the core of its own is idle.
///
/// A thread that waits is moved by the one that gives it the device, so it wakes where it computes.
/// Threads that a step's function starts inherit the cores of the stage.
///
/// Thread-safety: see TaskThreads.
class StageThreads final : public concurrency::TaskThreads {
 public:
  /// `cores`: [device], none of them empty.
  StageThreads(std::vector<machine::CoreSet> cores, int micro_batches);

  void begin(int micro_batch) override;
  /// The thread may run where it did before `begin`.
  void end(int micro_batch) override;
  void move(int micro_batch, int device) override;

 private:
  static constexpr int kNoDevice = -1;

  struct alignas(64) Thread {
    int number = 0;
    int device = kNoDevice;  // to whose cores it is pinned
    machine::CoreSet before;
  };

  const std::vector<machine::CoreSet> cores_;
  std::vector<Thread> threads_;  // [micro-batch]
};

}  // namespace brigade::distribute
