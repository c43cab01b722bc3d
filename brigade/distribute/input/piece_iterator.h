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

/// Iterates over batches in pieces. Its position can be saved between two pieces of a batch.
///
/// Thread-safety: one thread at a time.
template <class B>
class PieceIterator {
 public:
  /// Without `sizes` each piece is a whole batch.
  PieceIterator(data::Iterator<B> batches, PieceSizes sizes)
      : batches_(std::move(batches)), sizes_of_(std::move(sizes)) {}

  /// The next piece, which may be empty; nullopt at the end.
  std::optional<B> next() {
    if (!sizes_of_) return batches_.next();
    while (next_piece_ == sizes_.size()) {
      if (!next_batch()) return std::nullopt;
    }
    const std::int64_t begin = examples_given_;
    examples_given_ += sizes_[next_piece_++];
    return input::examples_between(*batch_, begin, examples_given_);
  }

  std::uint64_t epoch() const { return batches_.epoch(); }
  void start_next_epoch() {
    batches_.start_next_epoch();
    discard_batch();
    full_ = 0;
  }

  /// The position after the last piece that `next` returned.
  io::StateTree save() const {
    if (!sizes_of_) return batches_.save();
    const bool is_within = next_piece_ < sizes_.size();
    io::StateTree state;
    state[kPosition] = is_within ? before_ : batches_.save();
    state[kPieceIndex] = is_within ? next_piece_ : 0;
    state[kGiven] = is_within ? examples_given_ : 0;
    state[kFull] = full_;
    return state;
  }
  /// Moves to a saved position. If batches are split differently now, the rest of the batch is
  /// split in the new way. Throws kInvalidArgument for a position within a batch if batches are not
  /// split.
  void restore(const io::StateTree& state) {
    const bool is_piecewise = state.has(kPieceIndex);
    const auto piece_index = is_piecewise ? state.as_uint64(kPieceIndex) : 0;
    check_argument(piece_index == 0 || sizes_of_,
                   "The position is within a batch that was split into pieces, and batches are not "
                   "split into pieces here: use the same AutoShardPolicy as before, or start a new "
                   "epoch.");
    // A job may resume with more epochs, or with another number of replicas and matching batches.
    batches_.restore(is_piecewise ? state.at(kPosition) : state,
                     data::PipelineMatch::kIgnoreLengths);
    discard_batch();
    full_ = is_piecewise ? state.as_int64(kFull) : 0;
    if (piece_index > 0) restore_within(piece_index, state.as_int64(kGiven));
  }

 private:
  bool next_batch() {
    before_ = batches_.save();
    batch_ = batches_.next();
    if (!batch_) return false;
    const std::int64_t size = input::examples_in(*batch_);
    full_ = std::max(full_, size);
    sizes_ = sizes_of_(size, full_);
    next_piece_ = 0;
    examples_given_ = 0;
    return true;
  }
  void discard_batch() {
    batch_.reset();
    sizes_.clear();
    next_piece_ = 0;
    examples_given_ = 0;
  }
  void restore_within(std::size_t piece_index, std::int64_t given) {
    const bool has_batch = next_batch();
    const std::int64_t size = has_batch ? input::examples_in(*batch_) : 0;
    check_argument(given >= 0 && given <= size,
                   "The position is within a batch that the data does not have: was it saved from "
                   "other data?");
    if (piece_index <= sizes_.size() &&
        std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(piece_index),
                        std::int64_t{0}) == given) {
      next_piece_ = piece_index;
    } else {
      sizes_ = sizes_of_(size - given, full_);
    }
    examples_given_ = given;
  }

  static constexpr std::string_view kPosition = "position";
  static constexpr std::string_view kPieceIndex = "turn";
  static constexpr std::string_view kGiven = "given";
  static constexpr std::string_view kFull = "full";

  data::Iterator<B> batches_;
  PieceSizes sizes_of_;
  io::StateTree before_;             // the position before the batch
  std::optional<B> batch_;           // the one being iterated over
  std::vector<std::int64_t> sizes_;  // of its pieces
  std::size_t next_piece_ = 0;       // the index of the next piece
  std::int64_t examples_given_ = 0;  // examples in the pieces before it
  std::int64_t full_ = 0;            // the largest batch of this epoch so far
};

}  // namespace brigade::distribute
