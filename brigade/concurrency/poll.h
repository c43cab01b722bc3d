#pragma once

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace brigade::concurrency {

/// Polls `done` for `time` without sleeping; returns whether it became true. With time 0, calls it
/// once.
template <class Done>
bool poll_for(std::chrono::microseconds time, const Done& done) {
  if (done()) return true;
  if (time.count() == 0) return false;
  const auto until = std::chrono::steady_clock::now() + time;
  // The clock is read once in a while only: a read costs as much as many polls.
  constexpr int kPollsPerClockRead = 64;
  do {
    for (int poll = 0; poll < kPollsPerClockRead; ++poll) {
      if (done()) return true;
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace brigade::concurrency
