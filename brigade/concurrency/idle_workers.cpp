#include "brigade/concurrency/idle_workers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace brigade::concurrency {

IdleWorkers::IdleWorkers(int devices) : workers_(static_cast<std::size_t>(devices)) {}

bool IdleWorkers::are_ready() const {
  return !is_stopped_ && std::ranges::all_of(workers_, &Worker::has_thread);
}

void IdleWorkers::wait_until_ready(Mutex& mutex) {
  while (!are_ready()) all_ready_.wait(mutex);
}

void IdleWorkers::assign(int device, DeferredWork work) {
  Worker& worker = workers_[static_cast<std::size_t>(device)];
  worker.work = std::move(work);
  worker.has_work.notify_all();
}

std::optional<DeferredWork> IdleWorkers::next(int device, Mutex& mutex) {
  Worker& worker = workers_[static_cast<std::size_t>(device)];
  worker.has_thread = true;
  all_ready_.notify_all();
  while (!worker.work && !is_stopped_) worker.has_work.wait(mutex);
  return std::exchange(worker.work, std::nullopt);
}

void IdleWorkers::stop() {
  is_stopped_ = true;
  for (Worker& worker : workers_) worker.has_work.notify_all();
}

}  // namespace brigade::concurrency
