#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace brigade::data {

/// How many elements a worker takes next, if the last `size` of them took `elapsed`.
std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk);

/// How many elements a worker takes at once: one at first, more while the work on them costs little
/// beside handing them over between threads, and fewer where it costs much (`next_chunk_size`).
///
/// Time in which the thread could have run but others had its core is no cost of the elements:
/// where threads exceed cores it would make chunks smaller the more of them are handed over, down
/// to one element. So after a chunk that took long, the next one is measured by the system's count
/// of the thread's time. A chunk in which the thread waited (for a file, a lock) counts with
/// all of its time.
///
/// Thread-safety: one thread at a time.
class ChunkSizer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ChunkSizer(std::size_t max_chunk) : max_chunk_(max_chunk) {}

  /// The elements of the next chunk.
  std::size_t size() const { return size_; }
  /// A chunk begins; it ends on the same thread.
  void start(Clock::time_point now);
  void finish(Clock::time_point now);

 private:
  /// What the system counts of this thread.
  struct Usage {
    std::chrono::microseconds cpu{0};
    std::int64_t waits = 0;  // how often it gave its core away by itself
  };
  static Usage usage();
  std::chrono::nanoseconds cost(Clock::time_point now) const;

  const std::size_t max_chunk_;
  std::size_t size_ = 1;
  Clock::time_point started_{};
  Usage usage_{};
  bool is_exact_ = false;  // usage_ is asked for, which costs a third of a microsecond
};

}  // namespace brigade::data
