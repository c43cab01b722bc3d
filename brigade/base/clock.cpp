#include "brigade/base/clock.h"

#include "brigade/base/error.h"

namespace brigade::base {

using std::chrono::steady_clock;
using std::chrono::system_clock;

steady_clock::time_point SystemClock::now() const {
  return steady_clock::now();
}

system_clock::time_point SystemClock::wall_time() const {
  return system_clock::now();
}

steady_clock::time_point ManualClock::now() const {
  return steady_clock::time_point(steady_clock::duration(ticks_.load()));
}

system_clock::time_point ManualClock::wall_time() const {
  const auto elapsed = now().time_since_epoch();
  return system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(elapsed));
}

void ManualClock::advance(steady_clock::duration step) {
  check_argument(step.count() >= 0,
                 "ManualClock::advance: a clock cannot go back; pass a step of 0 or more");
  ticks_.fetch_add(step.count());
}

}  // namespace brigade::base
