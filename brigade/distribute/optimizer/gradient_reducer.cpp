#include "brigade/distribute/optimizer/gradient_reducer.h"

#include <ATen/Parallel.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

using concurrency::MutexLock;

// A thread that sets its number of threads also sets the default of every thread started later:
// restore the caller's.
GradientReducer::GradientReducer(std::function<void(std::size_t)> reduce)
    : reduce_(std::move(reduce)) {
  const int callers_threads = at::get_num_threads();
  thread_ = std::thread([this] { serve(); });
  {
    const MutexLock lock(mutex_);
    while (!is_serving_) changed_.wait(mutex_);
  }
  at::set_num_threads(callers_threads);
}

GradientReducer::~GradientReducer() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GradientReducer::start(std::size_t num_buckets) {
  const MutexLock lock(mutex_);
  ready_.assign(num_buckets, false);
  next_ = 0;
  is_stopped_ = false;
  failure_ = nullptr;
}

void GradientReducer::ready(std::size_t bucket) {
  const MutexLock lock(mutex_);
  check_argument(bucket < ready_.size(), base::str_cat("GradientReducer: there is no bucket ",
                                                       bucket, "; there are ", ready_.size(), "."));
  ready_[bucket] = true;
  if (has_work() && !is_busy_) changed_.notify_all();
}

std::size_t GradientReducer::stop() {
  const MutexLock lock(mutex_);
  is_stopped_ = true;
  while (is_busy_) changed_.wait(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return next_;
}

std::size_t GradientReducer::reduced() const {
  const MutexLock lock(mutex_);
  return next_;
}

void GradientReducer::serve() {
  at::get_num_threads();  // the first call sets the number to the default: call it before setting
  at::set_num_threads(1);
  mutex_.lock();
  is_serving_ = true;
  changed_.notify_all();
  while (!is_ending_) {
    if (!has_work()) {
      changed_.wait(mutex_);
      continue;
    }
    const std::size_t bucket = next_;
    is_busy_ = true;
    mutex_.unlock();
    std::exception_ptr failure;
    try {
      reduce_(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    mutex_.lock();
    is_busy_ = false;
    if (failure) {
      failure_ = failure;
      is_stopped_ = true;
    } else {
      ++next_;
    }
    changed_.notify_all();
  }
  mutex_.unlock();
}

}  // namespace brigade::distribute
