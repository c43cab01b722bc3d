#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/interleave/prefetch_queue.h"
#include "brigade/data/core/element_result.h"

namespace brigade::data::internal {

/// What a worker does with a queue that it claimed: makes its dataset, the first time, and reads the
/// next chunk of it. A dataset that cannot be made gives one result, the error.
///
/// Thread-safety: const calls from any number of threads, each with a queue of its own.
template <class T, class U>
class InterleaveReader {
 public:
  using Queue = PrefetchQueue<T, U>;
  using Chunk = typename Queue::Chunk;

  explicit InterleaveReader(const InnerMaker<T, U>& maker) : maker_(maker) {}

  /// Throws if the job gave up waiting.
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
    // Its files and threads are not needed any more.
    if (chunk.end != Queue::End::kNotYet) queue.inner.close();
    queue.sizer.finish(ChunkSizer::Clock::now());
    return chunk;
  }

 private:
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
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
      if (maker_.is_cancelled()) throw;  // no element's error: the walk is given up
      return {std::nullopt, std::current_exception()};
    }
  }

  const InnerMaker<T, U>& maker_;
};

}  // namespace brigade::data::internal
