#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "brigade/base/clock.h"

namespace brigade::train {

/// For tests: each call of `now` advances it by a millisecond.
class TickClock final : public base::Clock {
 public:
  std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(++ticks_));
  }
  std::chrono::system_clock::time_point wall_time() const override { return {}; }

 private:
  mutable std::atomic<std::int64_t> ticks_{0};
};

}  // namespace brigade::train
