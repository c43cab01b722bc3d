#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "brigade/data/interleave/inner_walk.h"
#include "brigade/data/interleave/interleave_lane.h"
#include "brigade/data/core/outcome.h"

namespace brigade::data::internal {

/// What a worker does with a lane that it claimed: makes its dataset, the first time, and reads the
/// next chunk of it. A dataset that cannot be made gives one result, the error.
///
/// Thread-safety: const calls from any number of threads, each with a lane of its own.
template <class T, class U>
class InterleaveReader {
 public:
  using Lane = InterleaveLane<T, U>;
  using Chunk = typename Lane::Chunk;

  explicit InterleaveReader(const InnerMaker<T, U>& maker) : maker_(maker) {}

  /// Throws if the job gave up waiting.
  Chunk read(Lane& lane) const {
    lane.sizer.start(ChunkSizer::Clock::now());
    if (!lane.walk.is_open()) lane.walk = maker_.open(lane.at, std::move(lane.element));
    Chunk chunk;
    if (lane.walk.error) {
      if (maker_.is_cancelled()) std::rethrow_exception(lane.walk.error);
      chunk.results.push_back({std::nullopt, lane.walk.error});
      chunk.end = Lane::End::kNotMade;
    } else {
      read_into(chunk, lane);
    }
    // Its files and threads are not needed any more.
    if (chunk.end != Lane::End::kNotYet) lane.walk.close();
    lane.sizer.finish(ChunkSizer::Clock::now());
    return chunk;
  }

 private:
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;

  void read_into(Chunk& chunk, Lane& lane) const {
    if (lane.read >= kElementsPerNote) {
      chunk.note = lane.walk.iterator->save();
      lane.read = 0;
    }
    while (chunk.results.size() < lane.sizer.size()) {
      Outcome<U> outcome = next_of(lane.walk);
      if (outcome.is_end()) {
        chunk.end = Lane::End::kRead;
        return;
      }
      chunk.results.push_back(std::move(outcome));
      ++lane.read;
    }
  }
  Outcome<U> next_of(InnerWalk<U>& walk) const {
    try {
      return {maker_.next(walk), nullptr};
    } catch (...) {
      if (maker_.is_cancelled()) throw;  // no element's error: the walk is given up
      return {std::nullopt, std::current_exception()};
    }
  }

  const InnerMaker<T, U>& maker_;
};

}  // namespace brigade::data::internal
