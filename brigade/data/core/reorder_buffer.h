#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/order.h"

namespace brigade::data {

struct StageCounters;

struct ReorderBufferOptions {
  /// Slots that may be claimed and not yet released. May change later, up to `slots`.
  std::size_t capacity = 1;
  /// The size of the ring of slots: no slot is claimed before the one so many before it is free.
  /// 0: the capacity.
  std::size_t slots = 0;
  /// Whether the consumer takes slots by number, or by `wait_for_any`.
  Order order = Order::kInOrder;
  /// Ends all waits, with kCancelled. Unset: nobody cancels.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where waits and filled slots are counted. Null: nowhere.
  StageCounters* counters = nullptr;
};

/// The turnstile of a pipeline whose results leave in the order in which they entered: producers
/// claim numbered slots of a ring, fill them in any order, and one consumer takes them by number
/// (or, where the order is relaxed, as they are filled). It orders the threads only; the slots
/// themselves belong to the caller. Slot n is written between `claim` returning n and `publish(n)`,
/// and read between `wait_for(n)`, or `wait_for_any` returning n, and `release(n)`.
///
/// Thread-safety: all functions from any thread; one consumer; `claim` by one producer at a time.
class ReorderBuffer {
 public:
  explicit ReorderBuffer(ReorderBufferOptions options);
  explicit ReorderBuffer(std::size_t capacity) : ReorderBuffer(ReorderBufferOptions{capacity}) {}
  ReorderBuffer(const ReorderBuffer&) = delete;
  ReorderBuffer& operator=(const ReorderBuffer&) = delete;

  /// Waits for a free slot and returns its number, counting from 0; nothing after `end` or `stop`.
  std::optional<std::uint64_t> claim();
  /// Slot `number` is filled.
  void publish(std::uint64_t number);
  /// There is no slot `number` nor any later one: the input ended.
  void end(std::uint64_t number);
  /// A producer cannot go on, for a reason that belongs to no slot. The first reason is kept.
  void fail(std::exception_ptr reason);
  /// Waits until slot `number` is filled: true then, false if the input ended before it, or on
  /// `stop`. Throws what `fail` was given.
  bool wait_for(std::uint64_t number);
  /// Waits until any slot is filled and returns the one that was filled first; nothing if all up to
  /// the end are taken, or on `stop`. Throws what `fail` was given. For a gate of relaxed order.
  std::optional<std::uint64_t> wait_for_any();
  /// The consumer is done with slot `number`.
  void release(std::uint64_t number);
  /// Ends all waits, now and later.
  void stop();

  /// Slots that may be claimed and not yet released, from now on: at least 1, at most the ring's.
  void set_capacity(std::size_t capacity);
  /// The size of the ring: two claimed slots never have the same number modulo it.
  std::size_t slots() const { return slots_; }

 private:
  enum class Slot : std::uint8_t { kFree, kClaimed, kFilled };

  Slot& slot(std::uint64_t number) BRIGADE_REQUIRES(mutex_) { return ring_[number % slots_]; }
  bool has_room() const BRIGADE_REQUIRES(mutex_);
  bool may_stop_waiting_for(std::uint64_t number) BRIGADE_REQUIRES(mutex_);
  bool may_stop_waiting_for_any() const BRIGADE_REQUIRES(mutex_);
  void end_all_waits() BRIGADE_REQUIRES(mutex_);
  void count_filled() BRIGADE_REQUIRES(mutex_);

  const std::size_t slots_;
  const Order order_;
  StageCounters* const counters_;
  concurrency::Mutex mutex_;
  concurrency::Condition freed_;   // a slot was released, or everything ended
  concurrency::Condition filled_;  // a slot was published, or everything ended
  std::size_t capacity_ BRIGADE_GUARDED_BY(mutex_);
  std::uint64_t claimed_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::uint64_t released_ BRIGADE_GUARDED_BY(mutex_) = 0;  // how many
  std::uint64_t oldest_ BRIGADE_GUARDED_BY(mutex_) = 0;    // all before it are released
  std::uint64_t num_filled_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::vector<Slot> ring_ BRIGADE_GUARDED_BY(mutex_);
  std::deque<std::uint64_t> ready_ BRIGADE_GUARDED_BY(mutex_);  // published, for wait_for_any
  std::uint64_t taken_ BRIGADE_GUARDED_BY(mutex_) = 0;          // by wait_for_any
  std::uint64_t awaited_ BRIGADE_GUARDED_BY(mutex_) = 0;        // the slot that wait_for waits for
  std::optional<std::uint64_t> end_ BRIGADE_GUARDED_BY(mutex_);
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = false;
  concurrency::CancelRegistration on_cancel_;  // last: gone before what its callback touches
};

}  // namespace brigade::data
