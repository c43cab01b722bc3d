#pragma once

#include <deque>
#include <functional>

#include "brigade/concurrency/mutex.h"

namespace brigade::rpc {

/// Calls that are decided under a lock and made without it, one after the other in the order in
/// which they were posted, whichever threads deliver them. A call may post and deliver in turn.
///
/// Thread-safety: all functions from any thread.
class Outbox {
 public:
  /// To be called while holding the lock that decides the order.
  void post(std::function<void()> call);
  /// To be called without it. Makes all posted calls, unless a thread is doing so already: then
  /// that one makes them. The calls must not throw.
  void deliver();

 private:
  concurrency::Mutex mutex_;
  std::deque<std::function<void()>> calls_ BRIGADE_GUARDED_BY(mutex_);
  bool is_delivering_ BRIGADE_GUARDED_BY(mutex_) = false;
};

}  // namespace brigade::rpc
