#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "brigade/data/core/element_result.h"
#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/interleave/prefetch_queue.h"

namespace brigade::data::internal {

/// Reads chunks for a queue that a worker claimed: creates the dataset the first time, then reads
/// its next chunk. A dataset that cannot be created gives one result, the error.
///
/// Thread-safety: const calls from any number of threads, each with a different queue.
template <class T, class U>
class InterleaveReader {
 public:
  using Queue = PrefetchQueue<T, U>;
  using Chunk = typename Queue::Chunk;

  explicit InterleaveReader(const InnerMaker<T, U>& maker) : maker_(maker) {}

  /// Throws if the iteration is cancelled.
  Chunk read(Queue& queue) const {
    queue.sizer.start(ChunkSizer::Clock::now());
    if (!queue.inner.is_open()) queue.inner = maker_.open(queue.at, std::move(queue.element));
    Chunk chunk;
    if (queue.inner.error) {
      if (maker_.is_cancelled()) std::rethrow_exception(queue.inner.error);
      chunk.results.push_back({std::nullopt, queue.inner.error});
      chunk.end = Queue::End::kNotCreated;
    } else {
      read_into(chunk, queue);
    }
    // Releases its files and threads.
    if (chunk.end != Queue::End::kNotYet) queue.inner.close();
    queue.sizer.finish(ChunkSizer::Clock::now());
    return chunk;
  }

 private:
  /// Small enough that a restore re-reads little, large enough that snapshots cost almost nothing.
  static constexpr std::uint64_t kElementsPerSnapshot = 16;

  void read_into(Chunk& chunk, Queue& queue) const {
    if (queue.read_since_snapshot >= kElementsPerSnapshot) {
      chunk.snapshot = queue.inner.iterator->save();
      queue.read_since_snapshot = 0;
    }
    while (chunk.results.size() < queue.sizer.size()) {
      ElementResult<U> result = next_of(queue.inner);
      if (result.is_end()) {
        chunk.end = Queue::End::kExhausted;
        return;
      }
      chunk.results.push_back(std::move(result));
      ++queue.read_since_snapshot;
    }
  }
  ElementResult<U> next_of(InnerIterator<U>& inner) const {
    try {
      return {maker_.next(inner), nullptr};
    } catch (...) {
      if (maker_.is_cancelled()) throw;  // not an element's error: the iteration is cancelled
      return {std::nullopt, std::current_exception()};
    }
  }

  const InnerMaker<T, U>& maker_;
};

}  // namespace brigade::data::internal
