#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/order.h"
#include "brigade/data/interleave/interleave_cycle.h"
#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data::internal {

struct InterleaveScheduleOptions {
  Order order = Order::kInOrder;
  /// Ends the consumer's waits with kCancelled; `where` names the step in messages.
  std::optional<concurrency::CancelToken> cancel{};
  std::string where{};
  /// Where waits and ready chunks are counted. Null: nowhere.
  StageCounters* counters = nullptr;
};

/// Schedules an interleave with threads: which queue a worker reads, whether a worker reads the
/// next input element, and when the consumer has to wait.
///
/// Thread-safety: `claim`, `add`, `publish` and `fail` may be called by any number of workers, each
/// using only the queues it claimed; everything else by the consumer's thread.
template <class T, class U>
class InterleaveSchedule {
 public:
  using Cycle = InterleaveCycle<T, U>;
  using Queue = typename Cycle::Queue;

  InterleaveSchedule(InterleaveScheduleOptions options, Cycle cycle)
      : options_(std::move(options)), cycle_(std::move(cycle)) {}

  /// For the functions that need no mutex; all others only while no worker runs.
  Cycle& cycle() { return cycle_; }
  const Cycle& cycle() const { return cycle_; }

  // ---- Called by the consumer.

  /// Advances to a queue with a result, waiting for one if necessary; false at the end. Throws the
  /// error of a worker that failed, or kCancelled.
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
  /// Frees the slot of a dataset that could not be created.
  void close_failed() {
    const concurrency::MutexLock lock(mutex_);
    cycle_.close_failed();
    wake_for_freed();
  }

  /// Prepares for `threads` workers.
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
  /// Changes the number of workers; workers with greater numbers get no more tasks.
  void set_threads(std::size_t threads) {
    const concurrency::MutexLock lock(mutex_);
    threads_ = threads;
    work_.notify_all();
  }
  /// Workers get no more tasks.
  void stop() {
    wake_ = {};
    const concurrency::MutexLock lock(mutex_);
    is_stopped_ = true;
    work_.notify_all();
  }

  // ---- Called by workers.

  struct Task {
    Queue*
        queue;  ///< To read and `publish`; null: read the next element of the input and `add` it.
  };
  /// Waits for a task; unset if worker `number` is no longer needed, or after `stop`.
  std::optional<Task> claim(std::size_t number) {
    const concurrency::MutexLock lock(mutex_);
    while (!is_stopped_ && number < threads_) {
      if (const auto task = find_task()) return task;
      const bool is_full = cycle_.has_full_queue();  // as opposed to: other workers read them
      const WaitTimer timer(is_full ? counter(&StageCounters::room_waits) : nullptr);
      work_.wait(mutex_);
    }
    work_.notify_one();  // passes on the wake-up: its task may still be open
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
  /// A worker failed with an error that does not belong to an element. The first error is kept.
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
  /// In this order: queues in slots with nothing ready, the input, upcoming queues, then second
  /// chunks.
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
  concurrency::Condition work_;    // for workers: a queue has space, or the input should be read
  concurrency::Condition filled_;  // for the consumer: a queue has results, is done, or failed
  Cycle cycle_;                    // guarded by the mutex, except for the consumer's functions
  std::uint64_t urgent_slot_ BRIGADE_GUARDED_BY(mutex_) = 0;
  const Queue* awaited_ BRIGADE_GUARDED_BY(mutex_) =
      nullptr;  // by the consumer; null: waits for any
  std::size_t threads_ BRIGADE_GUARDED_BY(mutex_) = 0;
  bool is_pulling_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  concurrency::CancelRegistration wake_;  // last: destroyed before what its callback uses
};

}  // namespace brigade::data::internal
