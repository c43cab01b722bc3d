#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"

namespace brigade::data {

/// The worker threads of a pipelined step. Their number may change while they run. Each calls `run`
/// with its number. `run` must return when there is no more work or `should_run(number)` is false;
/// it is called again if the number of workers is raised later.
///
/// Thread-safety: `should_run` from any thread, the rest from one at a time. The destructor waits
/// until `run` has returned on all threads, so make it return first.
class Workers {
 public:
  using Run = std::function<void(const Workers& workers, std::size_t number)>;

  /// `run` must not throw.
  Workers(std::string name, Run run) : name_(std::move(name)), run_(std::move(run)) {}

  /// Changes the number of workers. More workers start immediately; surplus workers stop when they
  /// next call `should_run`.
  void set_count(std::size_t count);
  std::size_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Whether worker `number` should keep running.
  bool should_run(std::size_t number) const { return number < count(); }

 private:
  /// Threads that were started together, with one task for each of `size` numbers.
  struct WorkerGroup {
    std::size_t first;
    std::size_t size;
    std::unique_ptr<concurrency::ThreadPool> threads;
  };
  void run_worker_of(std::size_t first, std::size_t size);
  /// A number in [first, first + size) that should run and that no task has; `first + size` if
  /// none.
  std::size_t take_number(std::size_t first, std::size_t size);
  /// Whether worker `number` must run again, because it was requested again while it was stopping.
  bool must_restart(std::size_t number);

  const std::string name_;
  const Run run_;
  std::atomic<std::size_t> count_{0};
  concurrency::Mutex mutex_;
  std::vector<bool> is_running_ BRIGADE_GUARDED_BY(mutex_);         // by number
  std::vector<bool> restart_requested_ BRIGADE_GUARDED_BY(mutex_);  // while it was still running
  std::vector<WorkerGroup> groups_;                                 // last: joined first
};

}  // namespace brigade::data
