#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/data/core/iterator.h"
#include "brigade/distribute/input/piece_sizes.h"
#include "brigade/input/split.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// A walk over batches that gives each of them in pieces, and can be saved between two pieces.
///
/// Thread-safety: one thread at a time.
template <class B>
class PieceIterator {
 public:
  /// Without `sizes` pieces are whole batches.
  PieceIterator(data::Iterator<B> batches, PieceSizes sizes)
      : batches_(std::move(batches)), sizes_of_(std::move(sizes)) {}

  /// The next piece, which may be empty, or nothing at the end.
  std::optional<B> next() {
    if (!sizes_of_) return batches_.next();
    while (turn_ == sizes_.size()) {
      if (!draw_batch()) return std::nullopt;
    }
    const std::int64_t begin = given_;
    given_ += sizes_[turn_++];
    return input::examples_between(*batch_, begin, given_);
  }

  std::uint64_t epoch() const { return batches_.epoch(); }
  void start_next_epoch() {
    batches_.start_next_epoch();
    forget_batch();
    full_ = 0;
  }

  /// The position behind the last piece that `next` returned.
  io::StateTree save() const {
    if (!sizes_of_) return batches_.save();
    const bool is_within = turn_ < sizes_.size();
    io::StateTree state;
    state[kPosition] = is_within ? before_ : batches_.save();
    state[kTurn] = is_within ? turn_ : 0;
    state[kGiven] = is_within ? given_ : 0;
    state[kFull] = full_;
    return state;
  }
  /// Goes there. If batches are now cut otherwise, the rest of the batch is cut in the new way.
  /// Throws kInvalidArgument for a place within a batch if batches are not cut at all.
  void restore(const io::StateTree& state) {
    const bool is_piecewise = state.has(kTurn);
    const auto turn = is_piecewise ? state.as_uint64(kTurn) : 0;
    check_argument(turn == 0 || sizes_of_,
                   "The position lies within a batch, a piece of which each worker was to train on "
                   "later; batches are not cut like that here: share the input out as before, or "
                   "begin a new epoch.");
    // A job may go on for more passes, or on another number of replicas with batches to match.
    batches_.restore(is_piecewise ? state.at(kPosition) : state, data::PipelineMatch::kIgnoreLengths);
    forget_batch();
    full_ = is_piecewise ? state.as_int64(kFull) : 0;
    if (turn > 0) go_within(turn, state.as_int64(kGiven));
  }

 private:
  bool draw_batch() {
    before_ = batches_.save();
    batch_ = batches_.next();
    if (!batch_) return false;
    const std::int64_t size = input::examples_in(*batch_);
    full_ = std::max(full_, size);
    sizes_ = sizes_of_(size, full_);
    turn_ = 0;
    given_ = 0;
    return true;
  }
  void forget_batch() {
    batch_.reset();
    sizes_.clear();
    turn_ = 0;
    given_ = 0;
  }
  void go_within(std::size_t turn, std::int64_t given) {
    const bool has_batch = draw_batch();
    const std::int64_t size = has_batch ? input::examples_in(*batch_) : 0;
    check_argument(given >= 0 && given <= size,
                   "The position lies in a batch that the data does not have: was it saved from "
                   "other data?");
    if (turn <= sizes_.size() &&
        std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(turn),
                        std::int64_t{0}) == given) {
      turn_ = turn;
    } else {
      sizes_ = sizes_of_(size - given, full_);
    }
    given_ = given;
  }

  static constexpr std::string_view kPosition = "position";
  static constexpr std::string_view kTurn = "turn";
  static constexpr std::string_view kGiven = "given";
  static constexpr std::string_view kFull = "full";

  data::Iterator<B> batches_;
  PieceSizes sizes_of_;
  io::StateTree before_;             // the position before the batch
  std::optional<B> batch_;           // the one being given out
  std::vector<std::int64_t> sizes_;  // of its pieces
  std::size_t turn_ = 0;             // pieces given out
  std::int64_t given_ = 0;           // and their examples
  std::int64_t full_ = 0;            // the largest batch of this epoch so far
};

}  // namespace brigade::distribute
