#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/order.h"

namespace brigade::data {

struct StageCounters;

struct ReorderBufferOptions {
  /// The most slots that may be claimed and not yet released. May change later, up to `slots`.
  std::size_t capacity = 1;
  /// The size of the ring of slots: slot n is claimed only after slot n - `slots` is released.
  /// 0: `capacity`.
  std::size_t slots = 0;
  /// kInOrder: the consumer calls `wait_for`; kRelaxed: `wait_for_any`.
  Order order = Order::kInOrder;
  /// Ends all waits with kCancelled. Unset: cannot be cancelled.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where waits and filled slots are counted. Null: not counted.
  StageCounters* counters = nullptr;
};

/// Brings the results of parallel producers back into order. Producers claim numbered slots of a
/// ring and fill them in any order; one consumer takes them by number or, in relaxed order, as they
/// are filled. It only synchronizes the threads; the slots themselves belong to the caller. Slot n
/// is written between `claim` returning n and `publish(n)`, and read between `wait_for(n)`, or
/// `wait_for_any` returning n, and `release(n)`.
///
/// Thread-safety: all functions from any thread; one consumer; `claim` by one producer at a time.
class ReorderBuffer {
 public:
  explicit ReorderBuffer(ReorderBufferOptions options);
  explicit ReorderBuffer(std::size_t capacity) : ReorderBuffer(ReorderBufferOptions{capacity}) {}
  ReorderBuffer(const ReorderBuffer&) = delete;
  ReorderBuffer& operator=(const ReorderBuffer&) = delete;

  /// Waits for a free slot and returns its number, counted from 0, or `std::nullopt` after `end` or
  /// `stop`.
  std::optional<std::uint64_t> claim();
  /// Marks slot `number` as filled.
  void publish(std::uint64_t number);
  /// Marks the end of the input: there is no slot `number` nor any later one.
  void end(std::uint64_t number);
  /// Ends all waits because a producer failed, for a reason that belongs to no slot. The first
  /// reason is kept.
  void fail(std::exception_ptr reason);
  /// Waits until slot `number` is filled. Returns false if the input ended before it, or on `stop`.
  /// Throws the reason given to `fail`.
  bool wait_for(std::uint64_t number);
  /// Waits until any slot is filled and returns the one that was filled first, or `std::nullopt` if
  /// all up to the end are taken, or on `stop`. Throws the reason given to `fail`. Only for
  /// `Order::kRelaxed`.
  std::optional<std::uint64_t> wait_for_any();
  /// Frees slot `number`: the consumer is done with it.
  void release(std::uint64_t number);
  /// Ends all current and future waits.
  void stop();

  /// Sets the most slots that may be claimed and not yet released, clamped to 1 ... `slots()`.
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
  concurrency::CancelRegistration on_cancel_;  // last: destroyed before what its callback uses
};

}  // namespace brigade::data
