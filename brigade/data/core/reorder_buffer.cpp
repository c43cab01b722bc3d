#include "brigade/data/core/reorder_buffer.h"

#include <algorithm>
#include <utility>

#include "brigade/data/runtime/stage_counters.h"

namespace brigade::data {

using concurrency::MutexLock;

ReorderBuffer::ReorderBuffer(ReorderBufferOptions options)
    : slots_(std::max(options.slots, options.capacity)),
      order_(options.order),
      counters_(options.counters),
      capacity_(options.capacity),
      ring_(slots_, Slot::kFree) {
  if (!options.cancel) return;
  on_cancel_ = options.cancel->on_cancel([this] { fail(cancelled_error()); });
}

std::optional<std::uint64_t> ReorderBuffer::claim() {
  MutexLock lock(mutex_);
  if (!is_stopped_ && !end_ && !has_room()) {
    const WaitTimer timer(counters_ == nullptr ? nullptr : &counters_->room_waits);
    while (!is_stopped_ && !end_ && !has_room()) freed_.wait(mutex_);
  }
  if (is_stopped_ || end_) return std::nullopt;
  slot(claimed_) = Slot::kClaimed;
  return claimed_++;
}

bool ReorderBuffer::has_room() const {
  return claimed_ - released_ < capacity_ && claimed_ - oldest_ < slots_;
}

void ReorderBuffer::publish(std::uint64_t number) {
  MutexLock lock(mutex_);
  slot(number) = Slot::kFilled;
  ++num_filled_;
  if (order_ == Order::kRelaxed) {
    ready_.push_back(number);
    filled_.notify_one();
  } else if (number == awaited_) {
    filled_.notify_one();
  }
}

void ReorderBuffer::end(std::uint64_t number) {
  MutexLock lock(mutex_);
  end_ = number;
  filled_.notify_all();
  freed_.notify_all();
}

void ReorderBuffer::fail(std::exception_ptr reason) {
  MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(reason);
  end_all_waits();
}

bool ReorderBuffer::may_stop_waiting_for(std::uint64_t number) {
  return is_stopped_ || (end_ && *end_ <= number) || slot(number) == Slot::kFilled;
}

bool ReorderBuffer::wait_for(std::uint64_t number) {
  MutexLock lock(mutex_);
  awaited_ = number;
  if (!may_stop_waiting_for(number)) {
    const WaitTimer timer(counters_ == nullptr ? nullptr : &counters_->consumer_waits);
    while (!may_stop_waiting_for(number)) filled_.wait(mutex_);
  }
  if (failure_) std::rethrow_exception(failure_);
  if (is_stopped_ || slot(number) != Slot::kFilled) return false;
  count_filled();
  return true;
}

bool ReorderBuffer::may_stop_waiting_for_any() const {
  return is_stopped_ || !ready_.empty() || (end_ && taken_ >= *end_);
}

std::optional<std::uint64_t> ReorderBuffer::wait_for_any() {
  MutexLock lock(mutex_);
  if (!may_stop_waiting_for_any()) {
    const WaitTimer timer(counters_ == nullptr ? nullptr : &counters_->consumer_waits);
    while (!may_stop_waiting_for_any()) filled_.wait(mutex_);
  }
  if (failure_) std::rethrow_exception(failure_);
  if (is_stopped_ || ready_.empty()) return std::nullopt;
  count_filled();
  const std::uint64_t number = ready_.front();
  ready_.pop_front();
  ++taken_;
  return number;
}

void ReorderBuffer::count_filled() {
  if (counters_ == nullptr) return;
  counters_->takes.add(1);
  counters_->filled_at_takes.add(num_filled_);
}

void ReorderBuffer::release(std::uint64_t number) {
  MutexLock lock(mutex_);
  slot(number) = Slot::kFree;
  ++released_;
  --num_filled_;
  while (oldest_ < claimed_ && slot(oldest_) == Slot::kFree) ++oldest_;
  freed_.notify_one();
}

void ReorderBuffer::stop() {
  MutexLock lock(mutex_);
  end_all_waits();
}

void ReorderBuffer::end_all_waits() {
  is_stopped_ = true;
  filled_.notify_all();
  freed_.notify_all();
}

void ReorderBuffer::set_capacity(std::size_t capacity) {
  MutexLock lock(mutex_);
  capacity_ = std::clamp<std::size_t>(capacity, 1, slots_);
  freed_.notify_all();
}

}  // namespace brigade::data
