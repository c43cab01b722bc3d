#include "brigade/data/runtime/workers.h"

#include <algorithm>

namespace brigade::data {

using concurrency::MutexLock;

void Workers::set_count(std::size_t count) {
  const std::size_t before = count_.exchange(count);
  for (const WorkerGroup& group : groups_) {
    const std::size_t end = std::min(group.first + group.size, count);
    for (std::size_t number = std::max(group.first, before); number < end; ++number) {
      group.threads->submit(
          [this, first = group.first, size = group.size] { run_worker_of(first, size); });
    }
  }
  const std::size_t num_threads = groups_.empty() ? 0 : groups_.back().first + groups_.back().size;
  if (count <= num_threads) return;
  const std::size_t size = count - num_threads;
  {
    MutexLock lock(mutex_);
    is_running_.resize(count, false);
    restart_requested_.resize(count, false);
  }
  groups_.push_back({num_threads, size,
                     std::make_unique<concurrency::ThreadPool>(
                         concurrency::ThreadPoolOptions{.threads = size, .name = name_})});
  for (std::size_t i = 0; i < size; ++i) {
    groups_.back().threads->submit([this, num_threads, size] { run_worker_of(num_threads, size); });
  }
}

std::size_t Workers::take_number(std::size_t first, std::size_t size) {
  MutexLock lock(mutex_);
  for (std::size_t number = first; number < first + size; ++number) {
    if (is_running_[number] || !should_run(number)) continue;
    is_running_[number] = true;
    return number;
  }
  for (std::size_t number = first; number < first + size; ++number) {
    if (should_run(number)) restart_requested_[number] = true;
  }
  return first + size;
}

bool Workers::must_restart(std::size_t number) {
  MutexLock lock(mutex_);
  is_running_[number] = restart_requested_[number] && should_run(number);
  restart_requested_[number] = false;
  return is_running_[number];
}

void Workers::run_worker_of(std::size_t first, std::size_t size) {
  // A worker that was about to stop may still have the number that this task is for. Then this task
  // takes another number, or none; and if the worker stops after all, `must_restart` runs it again.
  const std::size_t number = take_number(first, size);
  if (number == first + size) return;
  do {
    run_(*this, number);
  } while (must_restart(number));
}

}  // namespace brigade::data
