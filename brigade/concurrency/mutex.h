#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

/// Clang's thread-safety annotations: say which mutex guards a member, and `clang -Wthread-safety`
/// proves that every use holds it. Other compilers ignore them.
#if defined(__clang__)
#define BRIGADE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define BRIGADE_THREAD_ANNOTATION(x)
#endif
#define BRIGADE_CAPABILITY(name) BRIGADE_THREAD_ANNOTATION(capability(name))
#define BRIGADE_SCOPED_CAPABILITY BRIGADE_THREAD_ANNOTATION(scoped_lockable)
/// On a member: only touched while holding `mutex`.
#define BRIGADE_GUARDED_BY(mutex) BRIGADE_THREAD_ANNOTATION(guarded_by(mutex))
/// On a function: the caller holds `...` before and after.
#define BRIGADE_REQUIRES(...) BRIGADE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// On a function: the caller must not hold `...`.
#define BRIGADE_EXCLUDES(...) BRIGADE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define BRIGADE_ACQUIRE(...) BRIGADE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define BRIGADE_RELEASE(...) BRIGADE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define BRIGADE_TRY_ACQUIRE(...) BRIGADE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))

namespace brigade::concurrency {

/// std::mutex that clang can reason about. Take it with `MutexLock`, wait under it with
/// `Condition`.
class BRIGADE_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock() BRIGADE_ACQUIRE() { mutex_.lock(); }
  void unlock() BRIGADE_RELEASE() { mutex_.unlock(); }
  bool try_lock() BRIGADE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a mutex for as long as it lives.
class BRIGADE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) BRIGADE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() BRIGADE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition variable for `Mutex`. Waits may wake spuriously, so put them in a loop. Write the
/// condition in the loop, not in a lambda, because clang does not see the lock inside a lambda:
///   while (!is_ready_) ready_.wait(mutex_);
class Condition {
 public:
  /// Releases the mutex while waiting and holds it again on return.
  void wait(Mutex& mutex) BRIGADE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// The same until `deadline` at the latest. Returns whether it was woken before that.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      BRIGADE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace brigade::concurrency
