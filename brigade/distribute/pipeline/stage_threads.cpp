#include "brigade/distribute/pipeline/stage_threads.h"

#include <cstddef>
#include <utility>

#include "brigade/machine/affinity.h"

namespace brigade::distribute {

StageThreads::StageThreads(std::vector<machine::CoreSet> cores, int micro_batches)
    : cores_(std::move(cores)), threads_(static_cast<std::size_t>(micro_batches)) {}

void StageThreads::begin(int micro_batch) {
  threads_[static_cast<std::size_t>(micro_batch)] = {.number = machine::thread_number(),
                                                     .device = kNoDevice,
                                                     .before = machine::thread_affinity()};
}

void StageThreads::end(int micro_batch) {
  const Thread& thread = threads_[static_cast<std::size_t>(micro_batch)];
  if (thread.device != kNoDevice) machine::set_thread_affinity(thread.before);
}

void StageThreads::move(int micro_batch, int device) {
  Thread& thread = threads_[static_cast<std::size_t>(micro_batch)];
  if (thread.device == device) return;
  thread.device = device;
  machine::set_thread_affinity(cores_[static_cast<std::size_t>(device)], thread.number);
}

}  // namespace brigade::distribute
