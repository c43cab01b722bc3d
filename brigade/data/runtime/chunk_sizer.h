#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace brigade::data {

/// The number of elements that a worker takes next, if the last `size` elements took `elapsed`.
std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk);

/// Chooses how many elements a worker takes at a time: one at first, more while the work on an
/// element costs little compared with passing it between threads, and fewer if it costs much
/// (`next_chunk_size`).
///
/// Time in which the thread was runnable but had no core does not count: with more threads than
/// cores, it would shrink the chunks down to one element. So after a chunk that took long, the next
/// one is measured by the thread's CPU time. A chunk in which the thread waited (for a file, a
/// lock) counts with all of its time.
///
/// Thread-safety: one thread at a time.
class ChunkSizer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ChunkSizer(std::size_t max_chunk) : max_chunk_(max_chunk) {}

  /// The number of elements of the next chunk.
  std::size_t size() const { return size_; }
  /// Call `start` before a chunk and `finish` after it, on the same thread.
  void start(Clock::time_point now);
  void finish(Clock::time_point now);

 private:
  /// The system's statistics of this thread.
  struct Usage {
    std::chrono::microseconds cpu{0};
    std::int64_t waits = 0;  // voluntary context switches
  };
  static Usage usage();
  std::chrono::nanoseconds cost(Clock::time_point now) const;

  const std::size_t max_chunk_;
  std::size_t size_ = 1;
  Clock::time_point started_{};
  Usage usage_{};
  bool is_exact_ = false;  // usage_ is read, which costs a third of a microsecond
};

}  // namespace brigade::data
