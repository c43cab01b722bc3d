#include "brigade/distribute/input/piece_iterator.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

constexpr std::string_view kPosition = "position";
constexpr std::string_view kPieceIndex = "turn";
constexpr std::string_view kGiven = "given";
constexpr std::string_view kFull = "full";

}  // namespace

PieceIterator::PieceIterator(const BatchOps& ops, data::Iterator<std::any> batches,
                             PieceSizes sizes)
    : ops_(ops), batches_(std::move(batches)), sizes_of_(std::move(sizes)) {}

std::optional<std::any> PieceIterator::next() {
  if (!sizes_of_) return batches_.next();
  while (next_piece_ == sizes_.size()) {
    if (!next_batch()) return std::nullopt;
  }
  const std::int64_t begin = examples_given_;
  examples_given_ += sizes_[next_piece_++];
  return ops_.examples_between(*batch_, begin, examples_given_);
}

void PieceIterator::skip_batches(int count) {
  if (count > 0) batches_.skip(static_cast<std::uint64_t>(count));
}

void PieceIterator::start_next_epoch() {
  batches_.start_next_epoch();
  discard_batch();
  full_ = 0;
}

io::StateTree PieceIterator::save() const {
  if (!sizes_of_) return batches_.save();
  const bool is_within = next_piece_ < sizes_.size();
  io::StateTree state;
  state[kPosition] = is_within ? before_ : batches_.save();
  state[kPieceIndex] = is_within ? next_piece_ : 0;
  state[kGiven] = is_within ? examples_given_ : 0;
  state[kFull] = full_;
  return state;
}

void PieceIterator::restore(const io::StateTree& state) {
  const bool is_piecewise = state.has(kPieceIndex);
  const auto piece_index = is_piecewise ? state.as_uint64(kPieceIndex) : 0;
  check_argument(piece_index == 0 || sizes_of_,
                 "The position is within a batch that was split into pieces, and batches are not "
                 "split into pieces here: use the same AutoShardPolicy as before, or start a new "
                 "epoch.");
  // A job may resume with more epochs, or with another number of replicas and matching batches.
  batches_.restore(is_piecewise ? state.at(kPosition) : state, data::PipelineMatch::kIgnoreLengths);
  discard_batch();
  full_ = is_piecewise ? state.as_int64(kFull) : 0;
  if (piece_index > 0) restore_within(piece_index, state.as_int64(kGiven));
}

bool PieceIterator::next_batch() {
  before_ = batches_.save();
  batch_ = batches_.next();
  if (!batch_) return false;
  const std::int64_t size = ops_.examples_in(*batch_);
  full_ = std::max(full_, size);
  sizes_ = sizes_of_(size, full_);
  next_piece_ = 0;
  examples_given_ = 0;
  return true;
}

void PieceIterator::discard_batch() {
  batch_.reset();
  sizes_.clear();
  next_piece_ = 0;
  examples_given_ = 0;
}

void PieceIterator::restore_within(std::size_t piece_index, std::int64_t given) {
  const bool has_batch = next_batch();
  const std::int64_t size = has_batch ? ops_.examples_in(*batch_) : 0;
  check_argument(given >= 0 && given <= size,
                 "The position is within a batch that the data does not have: was it saved from "
                 "other data?");
  const auto examples_before = [this](std::size_t index) {
    return std::accumulate(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(index),
                           std::int64_t{0});
  };
  if (piece_index <= sizes_.size() && examples_before(piece_index) == given) {
    next_piece_ = piece_index;
  } else {
    sizes_ = sizes_of_(size - given, full_);
  }
  examples_given_ = given;
}

}  // namespace brigade::distribute
