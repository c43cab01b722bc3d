#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// Options of StagingArea: its name and its limits.
struct StagingAreaOptions {
  /// The name in errors.
  std::string name = "staging area";
  /// The maximum number of elements; 0: unlimited.
  std::size_t capacity = 0;
  /// The maximum number of bytes of its elements, by the function that the area is made with; 0:
  /// unlimited. Both limits apply.
  std::size_t memory_limit = 0;
};

/// The timeout and the cancel token of a wait.
struct StagingWait {
  /// Unset: no timeout; then pass a token that can be cancelled.
  std::optional<std::chrono::milliseconds> timeout = std::chrono::minutes(10);
  /// Ends the wait, with kCancelled.
  CancelToken cancel{};
};

/// Throws the error of a failed wait: kCancelled or kDeadlineExceeded, naming the area and what was
/// waited for ("room", "an element").
[[noreturn]] void throw_staging_wait_over(const std::string& area, const std::string& what,
                                          const StagingWait& wait);
/// Throws kInvalidArgument for a memory limit without a size function.
void check_staging_options(const StagingAreaOptions& options, bool tells_sizes);
/// Throws kResourceExhausted if the element alone exceeds the memory limit.
void check_staging_size(const StagingAreaOptions& options, std::size_t bytes);

/// A bounded queue between two stages of a pipeline: an element is put at step k and taken at step
/// k + 1, so that both stages work at the same time on different batches. While it is full, `put`
/// waits; while it is empty, `get` waits. TensorFlow: tf.contrib.staging.StagingArea.
///
/// It can be limited by bytes and has no close operation: put an element that marks the end.
///
/// Waits throw kDeadlineExceeded or kCancelled, naming the area; the area does not change, and the
/// element of a failed `put` is lost. No thread may wait in the area when it is destroyed.
///
/// Thread-safety: any number of threads; each element is taken once.
template <class T>
class StagingArea {
 public:
  /// The bytes that an element takes.
  using SizeOf = std::function<std::size_t(const T&)>;

  /// Throws kInvalidArgument for a memory limit without `size_of`.
  explicit StagingArea(StagingAreaOptions options = {}, SizeOf size_of = {})
      : options_(std::move(options)), size_of_(std::move(size_of)) {
    check_staging_options(options_, size_of_ != nullptr);
  }
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  /// Waits for room, then appends `value`. Throws kResourceExhausted immediately if it alone
  /// exceeds the memory limit.
  void put(T value, const StagingWait& wait = {}) {
    const std::size_t bytes = size_of_ ? size_of_(value) : 0;
    check_staging_size(options_, bytes);
    wait_until([&]() BRIGADE_REQUIRES(mutex_) { return has_room(bytes); }, changed_room_, "room",
               wait,
               [&]() BRIGADE_REQUIRES(mutex_) {
                 elements_.push_back({std::move(value), bytes});
                 bytes_ += bytes;
                 changed_elements_.notify_all();  // some wait for the first, some for a later one
               });
  }

  /// Waits for the oldest element and removes it.
  T get(const StagingWait& wait = {}) {
    std::optional<T> taken;
    wait_until([&]() BRIGADE_REQUIRES(mutex_) { return !elements_.empty(); }, changed_elements_,
               "an element", wait,
               [&]() BRIGADE_REQUIRES(mutex_) {
                 taken.emplace(std::move(elements_.front().value));
                 bytes_ -= elements_.front().bytes;
                 elements_.pop_front();
                 changed_room_.notify_all();  // one large element may make room for several
               });
    return std::move(*taken);
  }

  /// Waits for the element at `index` and returns a copy; the element stays in the area.
  T peek(std::size_t index, const StagingWait& wait = {}) requires std::copyable<T> {
    std::optional<T> seen;
    wait_until([&]() BRIGADE_REQUIRES(mutex_) { return elements_.size() > index; },
               changed_elements_, "an element", wait,
               [&]() BRIGADE_REQUIRES(mutex_) { seen.emplace(elements_[index].value); });
    return std::move(*seen);
  }

  /// Calls `look` with the oldest element, which stays in the area, and returns true; returns false
  /// if there is none. `look` is called under the area's lock: keep it short.
  template <class Look>
  bool look_at_oldest(const Look& look) const {
    const MutexLock lock(mutex_);
    if (elements_.empty()) return false;
    look(elements_.front().value);
    return true;
  }

  /// Drops all elements and wakes the threads that wait for room.
  void clear() {
    std::deque<Entry> dropped;  // destroyed without the lock: that may take long
    const MutexLock lock(mutex_);
    dropped.swap(elements_);
    bytes_ = 0;
    changed_room_.notify_all();
  }

  /// The current number of elements; other threads may change it immediately.
  std::size_t size() const {
    const MutexLock lock(mutex_);
    return elements_.size();
  }
  std::size_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }
  /// 0: unlimited.
  std::size_t capacity() const { return options_.capacity; }
  std::size_t memory_limit() const { return options_.memory_limit; }
  const std::string& name() const { return options_.name; }

 private:
  struct Entry {
    T value;
    std::size_t bytes;
  };

  bool has_room(std::size_t bytes) const BRIGADE_REQUIRES(mutex_) {
    return (options_.capacity == 0 || elements_.size() < options_.capacity) &&
           (options_.memory_limit == 0 || bytes <= options_.memory_limit - bytes_);
  }

  /// Waits under the lock until `is_ready()`, then does `act()` under the same lock.
  template <class Ready, class Act>
  void wait_until(const Ready& is_ready, Condition& changed, const char* what,
                  const StagingWait& wait, const Act& act) {
    if (!wait.cancel.is_cancelled()) {
      const MutexLock lock(mutex_);
      if (is_ready()) return act();
    }
    const auto deadline = deadline_of(wait);
    // Outlives the lock: its callback takes it.
    const CancelRegistration wake = wait.cancel.on_cancel([this] {
      const MutexLock lock(mutex_);  // else it could fall between a waiter's check and its wait
      changed_room_.notify_all();
      changed_elements_.notify_all();
    });
    const MutexLock lock(mutex_);
    bool is_in_time = true;
    while (!wait.cancel.is_cancelled() && !is_ready() && is_in_time) {
      if (deadline) {
        is_in_time = changed.wait_until(mutex_, *deadline);
      } else {
        changed.wait(mutex_);
      }
    }
    if (wait.cancel.is_cancelled() || !is_ready())
      throw_staging_wait_over(options_.name, what, wait);
    act();
  }
  static std::optional<std::chrono::steady_clock::time_point> deadline_of(const StagingWait& wait) {
    if (!wait.timeout) return std::nullopt;
    return std::chrono::steady_clock::now() + *wait.timeout;
  }

  const StagingAreaOptions options_;
  const SizeOf size_of_;
  mutable Mutex mutex_;
  Condition changed_room_;
  Condition changed_elements_;
  std::deque<Entry> elements_ BRIGADE_GUARDED_BY(mutex_);
  std::size_t bytes_ BRIGADE_GUARDED_BY(mutex_) = 0;
};

}  // namespace brigade::concurrency
