#pragma once

#include <exception>
#include <utility>

#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

/// The first exception of several calls, of which each is to be made whatever becomes of the
/// others.
///
/// Thread-safety: all functions from any thread.
class FirstError {
 public:
  /// Keeps `error` if it is the first.
  void set(std::exception_ptr error) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  /// Calls `call`, and keeps what it throws if that is the first.
  template <class Call>
  void attempt(const Call& call) {
    try {
      call();
    } catch (...) {
      set(std::current_exception());
    }
  }
  /// Throws the first exception; returns if there was none.
  void rethrow() const {
    const MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable Mutex mutex_;
  std::exception_ptr error_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::concurrency
