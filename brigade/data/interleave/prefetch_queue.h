#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/runtime/chunk_sizer.h"
#include "brigade/data/interleave/inner_walk.h"
#include "brigade/data/core/noted_input.h"
#include "brigade/data/core/outcome.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The way of an inner dataset's elements from the threads that read it to the consumer.
///
/// Thread-safety: each part belongs to whom it says.
template <class T, class U>
struct InterleaveLane {
  static constexpr std::size_t kMostAtOnce = 16;  // elements of a chunk, if they are that fast

  /// Whether anything comes after a chunk.
  enum class End {
    kNotYet,
    kRead,     ///< No: the dataset is at its end.
    kNotMade,  ///< No: no dataset could be made, and the chunk holds the reason.
  };
  struct Chunk {
    std::vector<Outcome<U>> results{};
    std::optional<io::StateTree> note{};  // the dataset's state before the first result
    End end = End::kNotYet;
  };

  explicit InterleaveLane(typename NotedInput<T>::Element from)
      : at(std::move(from.at)), element(std::move(from.outcome)) {}
  explicit InterleaveLane(InnerWalk<U> restored) : at(restored.element), walk(std::move(restored)) {
    if (walk.iterator) noted = walk.iterator->save();
  }

  bool has_result() const { return taken < current.size(); }
  /// Whether a worker should read it, if that many chunks are to be ready.
  bool wants(std::size_t chunks) const { return !is_busy && !is_done && ready.size() < chunks; }

  /// A worker is done for now; whether it brings a chunk with results.
  bool publish(Chunk chunk) {
    is_busy = false;
    is_done = chunk.end != End::kNotYet;
    if (chunk.end == End::kNotMade) is_failed = true;
    if (chunk.results.empty()) return false;
    ready.push_back(std::move(chunk));
    return true;
  }
  /// The consumer takes the next chunk, if one is ready.
  bool take_chunk() {
    if (ready.empty()) return false;
    Chunk chunk = std::move(ready.front());
    ready.pop_front();
    current = std::move(chunk.results);
    taken = 0;
    if (chunk.note) {
      noted = std::move(chunk.note);
      ahead = 0;
    }
    return true;
  }

  const InputPlace at;
  // Of the worker that works on the lane.
  Outcome<T> element;  // until the dataset is made of it
  InnerWalk<U> walk;
  ChunkSizer sizer{kMostAtOnce};
  std::uint64_t read = 0;  // elements since the last note
  // Shared, under the mutex of the interleave.
  std::deque<Chunk> ready;
  bool is_busy = false;  // a worker works on it
  bool is_done = false;  // nothing comes after `ready`
  // Written with the only result alone, as the consumer reads it without the mutex.
  bool is_failed = false;  // no dataset could be made: the result is the reason
  // Of the consumer.
  std::vector<Outcome<U>> current;
  std::size_t taken = 0;  // of current
  std::optional<io::StateTree> noted;
  std::uint64_t ahead = 0;  // elements delivered since `noted`
};

}  // namespace brigade::data::internal
