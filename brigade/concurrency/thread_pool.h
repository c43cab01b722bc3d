#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// Options of ThreadPool.
struct ThreadPoolOptions {
  /// The number of threads.
  std::size_t threads = 1;
  /// The name of the threads in debuggers and `top -H`, followed by the thread's number; 15
  /// characters at most.
  std::string name = "brigade";
};

/// Runs tasks on a fixed number of threads. Tasks start in the order of `submit`; the queue is
/// unbounded, so a producer that can run ahead must limit itself.
///
/// A task should report its failure to the code that waits for its result. An exception that leaves
/// it is logged as an error; the thread and the other tasks continue.
///
/// The destructor lets running tasks end, drops those that have not started, and joins the threads:
/// call `wait_idle` first if they all matter. A dropped task is destroyed on the destroying thread
/// (so a std::packaged_task in it breaks its promise). It must not run inside one of the pool's
/// tasks.
///
/// Thread-safety: all functions from any thread, including tasks, except the destructor.
class ThreadPool {
 public:
  /// Throws kInvalidArgument if `options.threads` is 0, kResourceExhausted if the system gives no
  /// more threads.
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Enqueues `task` and returns. Throws kInvalidArgument if it is empty. While the pool is being
  /// destroyed, when tasks may still submit, new tasks are dropped.
  void submit(std::function<void()> task);

  /// Waits until no task is queued or running. Returns false if `cancel` is cancelled first. Throws
  /// kFailedPrecondition if called by a task of this pool, which would wait for itself.
  bool wait_idle(const CancelToken& cancel);

 private:
  using Task = std::function<void()>;

  void run(std::size_t number);
  std::optional<Task> next();
  void finish();
  void stop();

  const ThreadPoolOptions options_;
  Mutex mutex_;
  Condition changed_tasks_;
  Condition became_idle_;
  std::deque<Task> tasks_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t running_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace brigade::concurrency
