#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "brigade/concurrency/mutex.h"

namespace brigade::rpc {

/// A queue of callbacks that are posted under a lock and called without it, one at a time in the
/// order of posting, whichever threads deliver them. A callback may post and deliver itself.
///
/// Thread-safety: all functions from any thread.
class Outbox {
 public:
  /// Call it while holding the lock that decides the order.
  void post(std::function<void()> call) {
    const concurrency::MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
  }
  /// Call it without the lock. Runs all posted callbacks, unless another thread is running them:
  /// then that thread runs these too. Callbacks must not throw.
  void deliver() {
    {
      const concurrency::MutexLock lock(mutex_);
      if (is_delivering_) return;
      is_delivering_ = true;
    }
    for (;;) {
      std::function<void()> call;
      {
        const concurrency::MutexLock lock(mutex_);
        if (calls_.empty()) {
          is_delivering_ = false;
          return;
        }
        call = std::move(calls_.front());
        calls_.pop_front();
      }
      call();
    }
  }

 private:
  concurrency::Mutex mutex_;
  std::deque<std::function<void()>> calls_ BRIGADE_GUARDED_BY(mutex_);
  bool is_delivering_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::rpc
