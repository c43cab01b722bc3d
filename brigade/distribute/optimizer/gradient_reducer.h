#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "brigade/concurrency/mutex.h"

namespace brigade::distribute {

/// Reduces the buckets of a step's gradients on a separate thread, one after another from the first
/// to the last, each as soon as it and all before it are ready. So every process makes the same
/// calls in the same order, whenever its gradients are ready. The thread that applies the gradients
/// stops the reducer and reduces the remaining buckets itself, in the same order.
///
/// `reduce` is called only between `start` and the return of `stop`. Outside that, other threads
/// may use what it uses.
///
/// Thread-safety: `ready` and `stop` from any thread; `start` while no other call is made.
class GradientReducer {
 public:
  /// `reduce(bucket)` is called on the reducer's thread, whose tensor operations are
  /// single-threaded.
  explicit GradientReducer(std::function<void(std::size_t)> reduce);
  /// Ends the thread after the bucket that is being reduced.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Starts a step of `num_buckets` buckets, none of which is ready.
  void start(std::size_t num_buckets);
  /// The bucket is complete. After `stop` the thread does not reduce it.
  void ready(std::size_t bucket);
  /// Stops before the next bucket, waits for the one that is being reduced, and returns how many
  /// are reduced: these are the first ones. Throws what `reduce` threw, at each call until `start`.
  std::size_t stop();
  /// How many buckets are reduced so far.
  std::size_t reduced() const;

 private:
  void serve();
  bool has_work() const BRIGADE_REQUIRES(mutex_) {
    return !is_stopped_ && next_ < ready_.size() && ready_[next_];
  }

  const std::function<void(std::size_t)> reduce_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::vector<bool> ready_ BRIGADE_GUARDED_BY(mutex_);  // [bucket]
  std::size_t next_ BRIGADE_GUARDED_BY(mutex_) = 0;     // the first that is not reduced
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = true;   // starts no bucket
  bool is_busy_ BRIGADE_GUARDED_BY(mutex_) = false;     // inside of `reduce_`
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_serving_ BRIGADE_GUARDED_BY(mutex_) = false;  // the thread is set up
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace brigade::distribute
