#include "brigade/distribute/pipeline/idle_stages.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <utility>

#include "brigade/machine/affinity.h"

namespace brigade::distribute {

// A thread that sets its number of libtorch's threads also sets the default of threads started
// later: the caller's is restored when all have set theirs. A thread's first call of
// get_num_threads sets its number to the default, so it comes first.
IdleStages::IdleStages(std::shared_ptr<concurrency::StageSlots> slots, int devices, int threads,
                       const std::vector<machine::CoreSet>& cores)
    : slots_(std::move(slots)) {
  const int callers_threads = at::get_num_threads();
  for (int device = 0; device < devices; ++device) {
    const machine::CoreSet own =
        cores.empty() ? machine::CoreSet() : cores[static_cast<std::size_t>(device)];
    threads_.emplace_back([this, device, threads, own] {
      const machine::AffinityScope pinned(own);
      at::get_num_threads();
      at::set_num_threads(threads);
      const at::NoGradGuard no_grad;
      slots_->run_worker(device);
    });
  }
  slots_->wait_for_workers();
  at::set_num_threads(callers_threads);
}

IdleStages::~IdleStages() {
  slots_->stop_workers();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace brigade::distribute
