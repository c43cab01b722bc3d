#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/interleave/interleave_cycle.h"
#include "brigade/data/core/order.h"
#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data::internal {

struct InterleaveScheduleOptions {
  Order order = Order::kInOrder;
  /// Ends the waits of the consumer, with kCancelled; `where` says in messages what waited.
  std::optional<concurrency::CancelToken> cancel{};
  std::string where{};
  /// Where waits and ready chunks are counted. Null: nowhere.
  StageCounters* counters = nullptr;
};

/// Who does what next in an interleave with threads: which queue of the cycle a worker reads,
/// whether one takes the next element from the input, and when the consumer has to wait.
///
/// Thread-safety: `claim`, `add`, `publish` and `fail` by any number of workers, which stay within
/// the queues they claimed; the rest by the consumer's thread, `cycle` between its other calls.
template <class T, class U>
class InterleaveSchedule {
 public:
  using Cycle = InterleaveCycle<T, U>;
  using Queue = typename Cycle::Queue;

  InterleaveSchedule(InterleaveScheduleOptions options, Cycle cycle)
      : options_(std::move(options)), cycle_(std::move(cycle)) {}

  /// For the consumer's own functions; all others only while no worker runs.
  Cycle& cycle() { return cycle_; }
  const Cycle& cycle() const { return cycle_; }

  // ---- The consumer.

  /// Goes on to a queue with a result, waits for one if need be; false at the end of all. Throws
  /// what a worker failed with, or kCancelled.
  bool select() {
    const concurrency::MutexLock lock(mutex_);
    auto found = find();
    if (found == Cycle::Found::kNothingYet) {
      const WaitTimer timer(counter(&StageCounters::consumer_waits));
      while (found == Cycle::Found::kNothingYet) {
        wait_for_result();
        found = find();
      }
    }
    if (found == Cycle::Found::kEnd) return false;
    count_take();
    return true;
  }
  /// Makes way in the slot of a dataset that could not be made.
  void close_failed() {
    const concurrency::MutexLock lock(mutex_);
    cycle_.close_failed();
    wake_for_freed();
  }

  /// So many workers are to come.
  void start(std::size_t threads) {
    {
      const concurrency::MutexLock lock(mutex_);
      threads_ = threads;
      is_stopped_ = is_pulling_ = false;
      failure_ = nullptr;
      urgent_slot_ = cycle_.current_slot();
      awaited_ = nullptr;
    }
    if (!options_.cancel) return;
    wake_ = options_.cancel->on_cancel([this] {
      const concurrency::MutexLock lock(mutex_);
      filled_.notify_all();
    });
  }
  /// So many from now on: those with greater numbers get no more to do.
  void set_threads(std::size_t threads) {
    const concurrency::MutexLock lock(mutex_);
    threads_ = threads;
    work_.notify_all();
  }
  /// No worker gets any more to do.
  void stop() {
    wake_ = {};
    const concurrency::MutexLock lock(mutex_);
    is_stopped_ = true;
    work_.notify_all();
  }

  // ---- The workers.

  struct Task {
    Queue* queue;  ///< To read, and `publish`; none: take the next element from the input, and `add`.
  };
  /// Waits for something to do; nothing if worker `number` is one too many, or on `stop`.
  std::optional<Task> claim(std::size_t number) {
    const concurrency::MutexLock lock(mutex_);
    while (!is_stopped_ && number < threads_) {
      if (const auto task = find_task()) return task;
      const bool is_full = cycle_.has_full_queue();  // rather than: others are at it
      const WaitTimer timer(is_full ? counter(&StageCounters::room_waits) : nullptr);
      work_.wait(mutex_);
    }
    work_.notify_one();  // what woke this one may be left to do
    return std::nullopt;
  }
  void add(typename ReplayableInput<T>::Element element) {
    const concurrency::MutexLock lock(mutex_);
    is_pulling_ = false;
    cycle_.add(std::move(element));
    if (awaited_ == nullptr) filled_.notify_one();
    work_.notify_one();
  }
  void publish(Queue& queue, typename Queue::Chunk chunk) {
    const concurrency::MutexLock lock(mutex_);
    cycle_.publish(queue, std::move(chunk));
    if (awaited_ == nullptr || awaited_ == &queue) filled_.notify_one();
  }
  /// A worker cannot go on, for a reason that belongs to no element. The first reason is kept.
  void fail(std::exception_ptr reason) {
    const concurrency::MutexLock lock(mutex_);
    if (!failure_) failure_ = std::move(reason);
    is_stopped_ = true;
    filled_.notify_all();
    work_.notify_all();
  }

 private:
  AtomicCounter* counter(AtomicCounter StageCounters::*which) const {
    return options_.counters == nullptr ? nullptr : &(options_.counters->*which);
  }
  typename Cycle::Found find() BRIGADE_REQUIRES(mutex_) {
    const auto found = cycle_.find(options_.order);
    wake_for_freed();
    return found;
  }
  void wake_for_freed() BRIGADE_REQUIRES(mutex_) {
    for (std::size_t freed = cycle_.take_freed(); freed > 0; --freed) work_.notify_one();
  }
  void wait_for_result() BRIGADE_REQUIRES(mutex_) {
    if (failure_) std::rethrow_exception(failure_);
    awaited_ = options_.order == Order::kInOrder ? cycle_.current_queue() : nullptr;
    urgent_slot_ = cycle_.current_slot();
    if (options_.cancel) options_.cancel->throw_if_cancelled(options_.where);
    filled_.wait(mutex_);
  }
  void count_take() BRIGADE_REQUIRES(mutex_) {
    const bool is_new = cycle_.current_queue()->taken == 0;
    if (options_.counters == nullptr || !is_new) return;
    options_.counters->takes.add(1);
    options_.counters->filled_at_takes.add(cycle_.num_ready() + 1);
  }
  /// What is due first: queues in slots with nothing ready, new queues, then more for each.
  std::optional<Task> find_task() BRIGADE_REQUIRES(mutex_) {
    Queue* queue = cycle_.find_in_slots(1, urgent_slot_);
    if (queue == nullptr && !is_pulling_ && cycle_.needs_queue(threads_)) {
      is_pulling_ = true;
      return Task{nullptr};
    }
    if (queue == nullptr) queue = cycle_.find_upcoming();
    if (queue == nullptr) queue = cycle_.find_in_slots(Cycle::kReadyChunks, urgent_slot_);
    if (queue == nullptr) return std::nullopt;
    queue->is_busy = true;
    return Task{queue};
  }

  const InterleaveScheduleOptions options_;
  concurrency::Mutex mutex_;
  concurrency::Condition work_;    // for workers: a queue has room, or the input is wanted
  concurrency::Condition filled_;  // for the consumer: a queue has results, or is done, or failed
  Cycle cycle_;                    // under the mutex, but for the consumer's own
  std::uint64_t urgent_slot_ BRIGADE_GUARDED_BY(mutex_) = 0;
  const Queue* awaited_ BRIGADE_GUARDED_BY(mutex_) = nullptr;  // by the consumer; null: by any
  std::size_t threads_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_pulling_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  concurrency::CancelRegistration wake_;  // last: gone before what its callback touches
};

}  // namespace brigade::data::internal
