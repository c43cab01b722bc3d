#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "brigade/concurrency/mutex.h"

namespace brigade::rpc {

/// An amount of something, such as memory, that many take parts of and give back.
///
/// Thread-safety: all functions from any thread.
class Budget {
 public:
  /// A part, given back at its end. The budget must outlive it.
  class Part {
   public:
    Part(Budget& budget, std::size_t amount) : budget_(&budget), amount_(amount) {}
    Part(Part&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), amount_(other.amount_) {}
    Part& operator=(Part&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Part() {
      if (budget_ != nullptr) budget_->give_back(amount_);
    }

   private:
    Budget* budget_;
    std::size_t amount_;
  };

  explicit Budget(std::size_t total) : total_(total), left_(total) {}

  /// A part of this size, or nothing if less is left.
  std::optional<Part> take(std::size_t amount) BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    if (amount > left_) return std::nullopt;
    left_ -= amount;
    return std::optional<Part>(std::in_place, *this, amount);
  }

  /// What all parts have together.
  std::size_t taken() const BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    return total_ - left_;
  }

 private:
  void give_back(std::size_t amount) BRIGADE_EXCLUDES(mutex_) {
    const concurrency::MutexLock lock(mutex_);
    left_ += amount;
  }

  const std::size_t total_;
  mutable concurrency::Mutex mutex_;
  std::size_t left_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::rpc
