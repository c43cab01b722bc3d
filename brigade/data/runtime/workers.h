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

/// The threads of a pipelined step, whose number may change while they run. Each runs `run` with
/// its number, which returns when there is no more to do or when `should_run` says that this worker is
/// one too many; it is called again should more be wanted later.
///
/// Thread-safety: `should_run` from any thread, the rest from one at a time. The destructor waits for
/// `run` to return everywhere, so make it return first.
class Workers {
 public:
  using Run = std::function<void(const Workers& workers, std::size_t number)>;

  /// `run` must not throw.
  Workers(std::string name, Run run) : name_(std::move(name)), run_(std::move(run)) {}

  /// From now on that many: at once if they are more, as they come to ask if they are fewer.
  void set_count(std::size_t count);
  std::size_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Whether worker `number` should go on.
  bool should_run(std::size_t number) const { return number < count(); }

 private:
  /// Threads that were hired together, with a task each for as many numbers.
  struct WorkerGroup {
    std::size_t first;
    std::size_t size;
    std::unique_ptr<concurrency::ThreadPool> threads;
  };
  void run_worker_of(std::size_t first, std::size_t size);
  /// A number in [first, first + size) that is wanted and that nobody has; `size` more if none.
  std::size_t take_number(std::size_t first, std::size_t size);
  /// Whether worker `number` is to begin again: somebody came for its number while it was leaving.
  bool must_restart(std::size_t number);

  const std::string name_;
  const Run run_;
  std::atomic<std::size_t> count_{0};
  concurrency::Mutex mutex_;
  std::vector<bool> is_running_ BRIGADE_GUARDED_BY(mutex_);  // by number
  std::vector<bool> restart_requested_ BRIGADE_GUARDED_BY(mutex_);  // somebody came for a running one
  std::vector<WorkerGroup> groups_;                                  // last: joined first
};

}  // namespace brigade::data
