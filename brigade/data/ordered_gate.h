#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "brigade/concurrency/mutex.h"

namespace brigade::data {

/// The turnstile of a pipeline whose results leave in the order in which they entered: producers
/// claim numbered slots of a ring, fill them in any order, and one consumer takes them by number.
/// It orders the threads only; the slots themselves belong to the caller. Slot n is written between
/// `claim` returning n and `publish(n)`, and read between `wait_for(n)` and `release(n)`.
///
/// Thread-safety: all functions from any thread; one consumer; `claim` by one producer at a time.
class OrderedGate {
 public:
  /// At most `capacity` slots are claimed and not yet released.
  explicit OrderedGate(std::size_t capacity);

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
  /// The consumer is done with slot `number`.
  void release(std::uint64_t number);
  /// Ends all waits, now and later.
  void stop();

 private:
  std::size_t index_of(std::uint64_t number) const { return number % capacity_; }

  const std::size_t capacity_;
  concurrency::Mutex mutex_;
  concurrency::Condition freed_;   // a slot was released, or everything ended
  concurrency::Condition filled_;  // a slot was published, or everything ended
  std::uint64_t claimed_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::uint64_t released_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::vector<bool> is_filled_ BRIGADE_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> end_ BRIGADE_GUARDED_BY(mutex_);
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::data
