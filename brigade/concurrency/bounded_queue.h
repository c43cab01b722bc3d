#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// Hands elements from producers to consumers, in order, holding at most `capacity` of them: a
/// producer that is ahead waits. When all is produced, somebody closes the queue; consumers still
/// receive what is in it.
///
/// Every wait takes a cancel token, so that a pipeline left early stops at once. Whoever destroys
/// the queue must have seen to it that nobody waits in it any more.
///
/// Thread-safety: any number of producers and consumers; each element is received once.
template <class T>
class BoundedQueue {
 public:
  /// Throws kInvalidArgument if `capacity` is 0.
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    check_argument(capacity > 0, "BoundedQueue: a capacity of 0 can hold nothing; pass 1 or more");
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  /// Waits for room, then adds `value`. Returns false, and drops `value`, if the queue is closed or
  /// the token cancelled, before or during the wait.
  bool push(T value, const CancelToken& cancel) {
    if (!cancel.is_cancelled()) {
      const MutexLock lock(mutex_);
      if (is_closed_) return false;
      if (elements_.size() < capacity_) return add(value);
    }
    const CancelRegistration wake = wake_on(cancel);  // outlives the lock: see CancelRegistration
    const MutexLock lock(mutex_);
    while (!is_closed_ && !cancel.is_cancelled() && elements_.size() >= capacity_) {
      changed_room_.wait(mutex_);
    }
    if (is_closed_ || cancel.is_cancelled()) return false;
    return add(value);
  }

  /// Waits for the oldest element and takes it out. Nothing once the queue is closed and empty, or
  /// if the token is cancelled, before or during the wait, whatever the queue still holds.
  std::optional<T> pop(const CancelToken& cancel) {
    if (!cancel.is_cancelled()) {
      const MutexLock lock(mutex_);
      if (!elements_.empty()) return take();
      if (is_closed_) return std::nullopt;
    }
    const CancelRegistration wake = wake_on(cancel);
    const MutexLock lock(mutex_);
    while (!is_closed_ && !cancel.is_cancelled() && elements_.empty())
      changed_elements_.wait(mutex_);
    if (cancel.is_cancelled() || elements_.empty()) return std::nullopt;
    return take();
  }

  /// Takes the oldest element out if there is one now.
  std::optional<T> try_pop() {
    const MutexLock lock(mutex_);
    if (elements_.empty()) return std::nullopt;
    return take();
  }

  /// Refuses further elements and wakes everybody: pushes that wait return false, pops drain what
  /// is left. Calling it again does nothing.
  void close() {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    changed_room_.notify_all();
    changed_elements_.notify_all();
  }

  /// How many elements are held at this moment; other threads may change it at once.
  std::size_t size() const {
    const MutexLock lock(mutex_);
    return elements_.size();
  }
  bool is_closed() const {
    const MutexLock lock(mutex_);
    return is_closed_;
  }
  std::size_t capacity() const { return capacity_; }

 private:
  CancelRegistration wake_on(const CancelToken& cancel) {
    return cancel.on_cancel([this] {
      const MutexLock lock(
          mutex_);  // else the wake-up could fall between a waiter's look and its wait
      changed_room_.notify_all();
      changed_elements_.notify_all();
    });
  }
  bool add(T& value) BRIGADE_REQUIRES(mutex_) {
    elements_.push_back(std::move(value));
    changed_elements_.notify_one();
    return true;
  }
  std::optional<T> take() BRIGADE_REQUIRES(mutex_) {
    std::optional<T> value(std::move(elements_.front()));
    elements_.pop_front();
    changed_room_.notify_one();
    return value;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  Condition changed_room_;
  Condition changed_elements_;
  std::deque<T> elements_ BRIGADE_GUARDED_BY(mutex_);
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::concurrency
