#pragma once

#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// Brings a store's log to the disk on its own thread, for pushes that are acknowledged later.
///
/// Thread-safety: all functions from any thread.
class LogSyncThread {
 public:
  /// `store` must outlive this.
  explicit LogSyncThread(ParameterStore& store);
  /// Waits for the syncs that have been asked for.
  ~LogSyncThread();

  /// Asks for a sync of all changes so far. An error is thrown by whoever waits for these, and by
  /// later changes.
  void request() BRIGADE_EXCLUDES(mutex_);

 private:
  void sync() BRIGADE_EXCLUDES(mutex_);

  ParameterStore& store_;
  concurrency::Mutex mutex_;
  bool is_asked_ BRIGADE_GUARDED_BY(mutex_) = false;  // a sync has not begun yet
  concurrency::ThreadPool thread_;
};

}  // namespace brigade::ps
