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

struct StagingAreaOptions {
  /// What errors call it.
  std::string name = "staging area";
  /// Elements that it holds at most; 0: any number.
  std::size_t capacity = 0;
  /// Bytes that its elements take at most, by the function that the area is made with; 0: any
  /// number. Whichever bound is met first counts.
  std::size_t memory_limit = 0;
};

/// How long a call on a staging area may wait, and who may end the wait.
struct StagingWait {
  /// Unset: for ever, so then hand in a token that somebody cancels.
  std::optional<std::chrono::milliseconds> timeout = std::chrono::minutes(10);
  CancelToken cancel{};
};

/// Throws the error of a wait that ended for nothing: kCancelled or kDeadlineExceeded, naming the
/// area and what was waited for ("room", "an element").
[[noreturn]] void throw_staging_wait_over(const std::string& area, const std::string& what,
                                          const StagingWait& wait);
/// Throws kInvalidArgument for a limit of memory without a function that tells sizes.
void check_staging_options(const StagingAreaOptions& options, bool tells_sizes);
/// Throws kResourceExhausted if an element could not be put in even if the area were empty.
void check_staging_size(const StagingAreaOptions& options, std::size_t bytes);

/// Holds what one stage of a step has made until the next stage wants it, in order: put at step k,
/// get at step k + 1, so that both work at the same time on different batches. While it is full,
/// `put` waits; while it is empty, `get` does. TensorFlow: tf.contrib.staging.StagingArea.
///
/// Choose it over `BoundedQueue` where elements are large (it can be bounded by bytes), where
/// somebody looks at elements without taking them, or where a wait needs a deadline. It has no end
/// of its own: put an element that says so.
///
/// Waits throw kDeadlineExceeded or kCancelled, naming the area; the area stays as it is, and an
/// element that was to be put in is lost. Whoever destroys the area must have seen to it that
/// nobody waits in it any more.
///
/// Thread-safety: any number of threads; each element is taken once.
template <class T>
class StagingArea {
 public:
  /// The bytes that an element takes.
  using SizeOf = std::function<std::size_t(const T&)>;

  /// Throws kInvalidArgument for a limit of memory without `size_of`.
  explicit StagingArea(StagingAreaOptions options = {}, SizeOf size_of = {})
      : options_(std::move(options)), size_of_(std::move(size_of)) {
    check_staging_options(options_, size_of_ != nullptr);
  }
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  /// Waits for room, then puts `value` behind the others. Throws kResourceExhausted at once if it
  /// alone is larger than the limit of memory.
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

  /// Waits for the oldest element and takes it out.
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

  /// A copy of the element with `index` others before it, once there is one; it stays in.
  T peek(std::size_t index, const StagingWait& wait = {}) requires std::copyable<T> {
    std::optional<T> seen;
    wait_until([&]() BRIGADE_REQUIRES(mutex_) { return elements_.size() > index; },
               changed_elements_, "an element", wait,
               [&]() BRIGADE_REQUIRES(mutex_) { seen.emplace(elements_[index].value); });
    return std::move(*seen);
  }

  /// Drops all elements, and lets those go on that wait for room.
  void clear() {
    std::deque<Entry> dropped;  // destroyed without the lock: that may take long
    const MutexLock lock(mutex_);
    dropped.swap(elements_);
    bytes_ = 0;
    changed_room_.notify_all();
  }

  /// What it holds at this moment; other threads may change it at once.
  std::size_t size() const {
    const MutexLock lock(mutex_);
    return elements_.size();
  }
  std::size_t bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
  }
  /// 0: any number.
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
      const MutexLock lock(mutex_);  // else it could fall between a waiter's look and its wait
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
