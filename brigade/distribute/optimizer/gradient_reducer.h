#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "brigade/concurrency/mutex.h"

namespace brigade::distribute {

/// Reduces the packs of a step's gradients on a thread of its own, one behind another and always
/// from the first to the last, each as soon as it and all before it are ready: so every process
/// makes the same calls in the same order, whenever its gradients are ready. Who applies the
/// gradients stops it, and reduces by itself what is left, still in that order.
///
/// The thread is inside of `reduce` only between `start` and the return of `stop`: outside of that,
/// others may use what it uses.
///
/// Thread-safety: `ready` and `stop` from any thread; `start` while no other call is made.
class GradientReducer {
 public:
  /// `reduce(bucket)` is called on the thread, whose tensor operations use no other threads.
  explicit GradientReducer(std::function<void(std::size_t)> reduce);
  /// Ends the thread, when it has done the pack that is under way.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Another step, of so many packs. None is ready.
  void start(std::size_t num_buckets);
  /// The pack is complete. After `stop` it is left to whoever stopped.
  void ready(std::size_t bucket);
  /// No pack is begun any more. Returns, when the one under way is done, how many are reduced: the
  /// first ones. Throws what `reduce` threw, each time until `start`.
  std::size_t stop();
  /// How many packs are reduced so far.
  std::size_t reduced() const;

 private:
  void serve();
  bool has_work() const BRIGADE_REQUIRES(mutex_) {
    return !is_stopped_ && next_ < ready_.size() && ready_[next_];
  }

  const std::function<void(std::size_t)> reduce_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::vector<bool> ready_ BRIGADE_GUARDED_BY(mutex_);  // [pack]
  std::size_t next_ BRIGADE_GUARDED_BY(mutex_) = 0;     // the first that is not reduced
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = true;   // begins no pack
  bool is_busy_ BRIGADE_GUARDED_BY(mutex_) = false;     // inside of `reduce_`
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_serving_ BRIGADE_GUARDED_BY(mutex_) = false;  // the thread is set up
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace brigade::distribute
