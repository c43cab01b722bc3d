#include "brigade/train/model/epoch_iterator.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/core/cardinality.h"

namespace brigade::train::internal {

EpochIterator::EpochIterator(const DistributedBatches& data)
    : cardinality_(data.cardinality()), iterator_(data.iterator()) {}

bool EpochIterator::has_next() {
  if (cardinality_ == data::kInfinite) return true;
  if (cardinality_ >= 0) return returned_ < cardinality_;
  look_ahead();
  return lookahead_->batch.has_value();
}

void EpochIterator::look_ahead() {
  if (lookahead_) return;
  io::StateTree before = iterator_.own_position();
  lookahead_ = Lookahead{.batch = iterator_.next(), .before = std::move(before)};
}

std::optional<EpochIterator::Batch> EpochIterator::next() {
  std::optional<Batch> batch = lookahead_ ? std::move(lookahead_->batch) : iterator_.next();
  lookahead_.reset();
  if (batch) ++returned_;
  return batch;
}

const EpochIterator::Batch& EpochIterator::peek() {
  look_ahead();
  check_argument(lookahead_->batch.has_value(), "The dataset is empty: it has no batch.");
  return *lookahead_->batch;
}

void EpochIterator::start_next_epoch() {
  lookahead_.reset();
  iterator_.start_next_epoch();
  returned_ = 0;
}

io::StateTree EpochIterator::save() const {
  io::StateTree tree = io::StateTree::dict();
  tree["drawn"] = returned_;
  tree["iterator"] = lookahead_ ? iterator_.save_at(lookahead_->before) : iterator_.save();
  return tree;
}

void EpochIterator::restore(const io::StateTree& state) {
  const std::int64_t returned = state.at("drawn").as_int64();
  iterator_.restore(state.at("iterator"));
  returned_ = returned;
  lookahead_.reset();
}

}  // namespace brigade::train::internal
