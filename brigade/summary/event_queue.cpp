#include "brigade/summary/event_queue.h"

#include <algorithm>
#include <utility>

namespace brigade::summary {

using concurrency::MutexLock;
using std::chrono::steady_clock;

bool EventQueue::is_full() const {
  // An event larger than the limit is accepted if the queue is empty.
  return events_.size() >= options_.events || (!events_.empty() && bytes_ >= options_.bytes);
}

bool EventQueue::has_work() const {
  return is_closed_ || flush_target_ > written_ || 2 * events_.size() >= options_.events ||
         2 * bytes_ >= options_.bytes;
}

void EventQueue::throw_failure() {
  if (!failure_) return;
  is_failure_seen_ = true;
  throw *failure_;
}

void EventQueue::push(std::string event) {
  const auto deadline = steady_clock::now() + options_.patience;
  const MutexLock lock(mutex_);
  while (!failure_ && !is_closed_ && is_full()) {
    if (!space_available_.wait_until(mutex_, deadline) && is_full()) {
      throw Error(ErrorCode::kDeadlineExceeded, "event file: ", events_.size(), " events waited ",
                  options_.patience.count(),
                  " ms for the disk; find out why it is slow, or write fewer summaries");
    }
  }
  throw_failure();
  check_state(!is_closed_, "event file: already closed; add events before close()");
  if (events_.empty()) due_ = steady_clock::now() + options_.hold;
  bytes_ += event.size();
  events_.push_back(std::move(event));
  ++pushed_;
  if (events_.size() == 1 || has_work()) work_available_.notify_one();
}

void EventQueue::wait_until_written() {
  const auto deadline = steady_clock::now() + options_.patience;
  const MutexLock lock(mutex_);
  const std::uint64_t target = pushed_;
  flush_target_ = std::max(flush_target_, target);
  work_available_.notify_one();
  while (!failure_ && written_ < target) {
    if (!written_changed_.wait_until(mutex_, deadline) && written_ < target) {
      throw Error(ErrorCode::kDeadlineExceeded,
                  "event file: the disk has not accepted the events for ",
                  options_.patience.count(), " ms; find out why it is slow");
    }
  }
  throw_failure();
}

void EventQueue::close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  work_available_.notify_all();
  space_available_.notify_all();
}

std::optional<Error> EventQueue::take_unseen_failure() {
  const MutexLock lock(mutex_);
  if (std::exchange(is_failure_seen_, true)) return std::nullopt;
  return failure_;
}

EventQueue::Batch EventQueue::take() {
  const MutexLock lock(mutex_);
  while (!has_work()) {
    if (events_.empty()) {
      work_available_.wait(mutex_);
    } else if (!work_available_.wait_until(mutex_, due_)) {
      break;
    }
  }
  Batch batch{.events = std::move(events_), .end = pushed_, .is_last = is_closed_};
  events_.clear();
  bytes_ = 0;
  space_available_.notify_all();
  return batch;
}

void EventQueue::mark_written(const Batch& batch) {
  const MutexLock lock(mutex_);
  written_ = batch.end;
  written_changed_.notify_all();
}

void EventQueue::fail(const Error& error) {
  const MutexLock lock(mutex_);
  failure_ = error;
  events_.clear();
  bytes_ = 0;
  space_available_.notify_all();
  written_changed_.notify_all();
}

}  // namespace brigade::summary
