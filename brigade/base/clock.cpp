#include "brigade/base/clock.h"

namespace brigade::base {

using std::chrono::steady_clock;
using std::chrono::system_clock;

steady_clock::time_point SystemClock::now() const {
  return steady_clock::now();
}

system_clock::time_point SystemClock::wall_time() const {
  return system_clock::now();
}

}  // namespace brigade::base
