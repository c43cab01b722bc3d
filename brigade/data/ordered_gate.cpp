#include "brigade/data/ordered_gate.h"

#include <utility>

namespace brigade::data {

using concurrency::MutexLock;

OrderedGate::OrderedGate(std::size_t capacity) : capacity_(capacity), is_filled_(capacity, false) {}

std::optional<std::uint64_t> OrderedGate::claim() {
  MutexLock lock(mutex_);
  while (!is_stopped_ && !end_ && claimed_ - released_ >= capacity_) freed_.wait(mutex_);
  if (is_stopped_ || end_) return std::nullopt;
  return claimed_++;
}

void OrderedGate::publish(std::uint64_t number) {
  MutexLock lock(mutex_);
  is_filled_[index_of(number)] = true;
  if (number == released_) filled_.notify_one();
}

void OrderedGate::end(std::uint64_t number) {
  MutexLock lock(mutex_);
  end_ = number;
  filled_.notify_all();
  freed_.notify_all();
}

void OrderedGate::fail(std::exception_ptr reason) {
  MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(reason);
  is_stopped_ = true;
  filled_.notify_all();
  freed_.notify_all();
}

bool OrderedGate::wait_for(std::uint64_t number) {
  MutexLock lock(mutex_);
  while (!is_stopped_ && !(end_ && *end_ <= number) && !is_filled_[index_of(number)]) {
    filled_.wait(mutex_);
  }
  if (failure_) std::rethrow_exception(failure_);
  return !is_stopped_ && is_filled_[index_of(number)];
}

void OrderedGate::release(std::uint64_t number) {
  MutexLock lock(mutex_);
  is_filled_[index_of(number)] = false;
  ++released_;
  freed_.notify_one();
}

void OrderedGate::stop() {
  MutexLock lock(mutex_);
  is_stopped_ = true;
  filled_.notify_all();
  freed_.notify_all();
}

}  // namespace brigade::data
