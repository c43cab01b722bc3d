#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "brigade/concurrency/cancel_token.h"

namespace brigade::concurrency {

struct ThreadPoolOptions {
  /// How many threads run tasks, from the pool's making to its end.
  std::size_t threads = 1;
  /// What the threads are called in debuggers and `top -H`: the name and the thread's number, 15
  /// characters at most.
  std::string name = "brigade";
  /// Runs first in each thread, with its number: the place to pin it or to set its share of cores.
  /// An exception from it is thrown by the pool's constructor.
  std::function<void(std::size_t)> on_start{};
  /// Receives what a task throws, on the thread that ran it; must not throw. Unset: the message is
  /// logged as an error.
  std::function<void(std::exception_ptr)> on_error{};
};

/// Runs tasks on a fixed number of threads. Tasks start in the order they were submitted; the
/// waiting line is unbounded, so a producer that can run ahead needs a bound of its own
/// (`BoundedQueue`).
///
/// A task should hand its failure to whoever waits for its result. What it throws all the same goes
/// to `ThreadPoolOptions::on_error`; the thread and the other tasks go on.
///
/// The destructor lets running tasks end, drops those that have not started, and joins the threads:
/// call `wait_idle` first if they all matter. A dropped task is destroyed on the destroying thread
/// (so a std::packaged_task in it breaks its promise). It must not run inside one of the pool's
/// tasks.
///
/// Thread-safety: all functions from any thread, tasks included, but for the destructor.
class ThreadPool {
 public:
  /// Throws kInvalidArgument if `options.threads` is 0, kResourceExhausted if the system gives no
  /// more threads.
  explicit ThreadPool(ThreadPoolOptions options);
  /// The same with `threads` threads and default options.
  explicit ThreadPool(std::size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Puts `task` at the end of the line and returns. Throws kInvalidArgument if it is empty. Once
  /// the pool is being destroyed (a task may still submit then) the task is dropped.
  void submit(std::function<void()> task);

  /// Waits until no task is waiting or running; true then, false if `cancel` came first. Throws
  /// kFailedPrecondition if called by a task of this pool, which would wait for itself.
  bool wait_idle(const CancelToken& cancel);

  std::size_t threads() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace brigade::concurrency
