#include "brigade/train/model/epoch_iterator.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/core/cardinality.h"

namespace brigade::train::internal {

EpochIterator::EpochIterator(const distribute::DistributedDataset<input::LabeledBatch>& data)
    : cardinality_(data.cardinality()), iterator_(data.iterator()) {}

bool EpochIterator::has_next() {
  if (cardinality_ == data::kInfinite) return true;
  if (cardinality_ >= 0) return drawn_ < cardinality_;
  look_ahead();
  return ahead_->batch.has_value();
}

void EpochIterator::look_ahead() {
  if (ahead_) return;
  io::StateTree before = iterator_.save();
  ahead_ = Ahead{.batch = iterator_.next(), .before = std::move(before)};
}

std::optional<EpochIterator::Batch> EpochIterator::next() {
  std::optional<Batch> batch = ahead_ ? std::move(ahead_->batch) : iterator_.next();
  ahead_.reset();
  if (batch) ++drawn_;
  return batch;
}

const EpochIterator::Batch& EpochIterator::peek() {
  look_ahead();
  check_argument(ahead_->batch.has_value(), "The dataset has no batch at all.");
  return *ahead_->batch;
}

void EpochIterator::start_next_epoch() {
  ahead_.reset();
  iterator_.start_next_epoch();
  drawn_ = 0;
}

std::optional<std::int64_t> EpochIterator::batches() const {
  return cardinality_ < 0 ? std::nullopt : std::optional(cardinality_);
}

io::StateTree EpochIterator::save() const {
  io::StateTree tree = io::StateTree::dict();
  tree["drawn"] = drawn_;
  tree["iterator"] = ahead_ ? ahead_->before : iterator_.save();
  return tree;
}

void EpochIterator::restore(const io::StateTree& state) {
  const std::int64_t drawn = state.at("drawn").as_int64();
  iterator_.restore(state.at("iterator"));
  drawn_ = drawn;
  ahead_.reset();
}

}  // namespace brigade::train::internal
