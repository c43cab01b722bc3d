// Loaded in front of the C library (LD_PRELOAD): a machine without a battery, whose clock has begun
// again at 1970. Time continues normally; clocks without a date are not changed.
#include <dlfcn.h>
#include <sys/time.h>

#include <ctime>

namespace {

constexpr time_t kYears = 60;
constexpr time_t kBack = kYears * 365 * 24 * 3600;

using ClockGettime = int (*)(clockid_t, timespec*);

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME && result == 0)
    time->tv_sec = time->tv_sec > kBack ? time->tv_sec - kBack : 0;
  return result;
}

extern "C" time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

extern "C" int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
