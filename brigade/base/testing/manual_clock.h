#pragma once

#include <atomic>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"

namespace brigade::base {

/// A clock for tests that changes only through `advance`. Its time of day begins with 1970.
class ManualClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::time_point(
        std::chrono::steady_clock::duration(ticks_.load()));
  }
  std::chrono::system_clock::time_point wall_time() const override {
    return std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(now().time_since_epoch()));
  }
  /// Throws kInvalidArgument if `step` is negative.
  void advance(std::chrono::steady_clock::duration step) {
    check_argument(step.count() >= 0,
                   "ManualClock::advance: a clock cannot go back; pass a step of 0 or more");
    ticks_.fetch_add(step.count());
  }

 private:
  std::atomic<std::chrono::steady_clock::duration::rep> ticks_{0};
};

}  // namespace brigade::base
