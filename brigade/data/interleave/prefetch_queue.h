#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/core/element_result.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/runtime/chunk_sizer.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The elements of one inner dataset that worker threads read ahead of the consumer.
///
/// Thread-safety: each group of members says which thread may use it.
template <class T, class U>
struct PrefetchQueue {
  static constexpr std::size_t kMaxChunkSize = 16;  // elements of a chunk

  /// Whether more chunks follow a chunk.
  enum class End {
    kNotYet,
    kExhausted,   ///< No: the dataset is at its end.
    kNotCreated,  ///< No: the dataset could not be created, and the chunk holds the error.
  };
  struct Chunk {
    std::vector<ElementResult<U>> results{};
    std::optional<io::StateTree> snapshot{};  // the dataset's state before the first result
    End end = End::kNotYet;
  };

  explicit PrefetchQueue(typename ReplayableInput<T>::Element from)
      : at(std::move(from.at)), element(std::move(from.result)) {}
  explicit PrefetchQueue(InnerIterator<U> restored)
      : at(restored.element), inner(std::move(restored)) {
    if (inner.iterator) snapshot = inner.iterator->save();
  }

  bool has_result() const { return taken < current.size(); }
  /// Whether a worker should read another chunk, so that `chunks` are ready.
  bool needs_chunk(std::size_t chunks) const {
    return !is_busy && !is_done && ready.size() < chunks;
  }

  /// A worker finished a chunk; returns whether the chunk has results.
  bool publish(Chunk chunk) {
    is_busy = false;
    is_done = chunk.end != End::kNotYet;
    if (chunk.end == End::kNotCreated) is_failed = true;
    if (chunk.results.empty()) return false;
    ready.push_back(std::move(chunk));
    return true;
  }
  /// The consumer takes the next chunk; false if none is ready.
  bool take_chunk() {
    if (ready.empty()) return false;
    Chunk chunk = std::move(ready.front());
    ready.pop_front();
    current = std::move(chunk.results);
    taken = 0;
    if (chunk.snapshot) {
      snapshot = std::move(chunk.snapshot);
      delivered = 0;
    }
    return true;
  }

  const ReplayPoint at;
  // Used by the worker that reads the dataset.
  ElementResult<T> element;  // until the dataset is made from it
  InnerIterator<U> inner;
  ChunkSizer sizer{kMaxChunkSize};
  std::uint64_t read_since_snapshot = 0;
  // Guarded by the mutex of the interleave.
  std::deque<Chunk> ready;
  bool is_busy = false;  // a worker reads it
  bool is_done = false;  // nothing follows `ready`
  // Written only with the single result, as the consumer reads it without the mutex.
  bool is_failed = false;  // the dataset could not be created: the result is the error
  // Used by the consumer.
  std::vector<ElementResult<U>> current;
  std::size_t taken = 0;  // of current
  std::optional<io::StateTree> snapshot;
  std::uint64_t delivered = 0;  // elements since `snapshot`
};

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
