#include "brigade/data/runtime/chunk_sizer.h"

#include <sys/resource.h>

#include <algorithm>

namespace brigade::data {

namespace {

// Waking a thread costs some microseconds: a chunk of this length hides it, and one much longer
// would only make the consumer wait for its first element.
constexpr std::chrono::microseconds kShort{50};
constexpr std::chrono::microseconds kLong{200};

std::chrono::microseconds duration_of(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

}  // namespace

std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk) {
  if (elapsed < kShort) return std::min(2 * size, max_chunk);
  if (elapsed > kLong) return std::max<std::size_t>(size / 2, 1);
  return size;
}

ChunkSizer::Usage ChunkSizer::usage() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return {.cpu = duration_of(used.ru_utime) + duration_of(used.ru_stime), .waits = used.ru_nvcsw};
}

void ChunkSizer::start(Clock::time_point now) {
  started_ = now;
  if (is_exact_) usage_ = usage();
}

void ChunkSizer::finish(Clock::time_point now) {
  size_ = next_chunk_size(size_, cost(now), max_chunk_);
  is_exact_ = now - started_ > kLong;
}

std::chrono::nanoseconds ChunkSizer::cost(Clock::time_point now) const {
  const std::chrono::nanoseconds elapsed = now - started_;
  if (!is_exact_) return elapsed;
  const Usage used = usage();
  if (used.waits != usage_.waits) return elapsed;
  return std::min<std::chrono::nanoseconds>(elapsed, used.cpu - usage_.cpu);
}

}  // namespace brigade::data
