#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/core/predicate.h"

namespace brigade::data {

namespace internal {

template <class F, class T>
class TakeWhileIterator final : public IteratorBase<T> {
 public:
  TakeWhileIterator(std::unique_ptr<IteratorBase<T>> input, Predicate<F> predicate)
      : input_(std::move(input)), predicate_(std::move(predicate)) {}
  std::optional<T> next() override {
    if (has_ended_) return std::nullopt;
    ++index_;  // counted even if it throws
    auto element = input_->next();
    if (element && predicate_(*element, index_ - 1)) return element;
    --index_;
    has_ended_ = true;
    return std::nullopt;
  }
  io::StateTree save() const override {
    return make_position("take_while", {{"place", index_}, {"has_ended", has_ended_ ? 1U : 0U}},
                         input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "take_while");
    const std::uint64_t index = position_number(state, "place");
    const bool has_ended = position_number(state, "has_ended") != 0;
    input_->restore(position_input(state));
    index_ = index;
    has_ended_ = has_ended;
  }

 private:
  std::unique_ptr<IteratorBase<T>> input_;
  Predicate<F> predicate_;
  std::uint64_t index_ = 0;
  bool has_ended_ = false;
};

template <class F, class T>
class TakeWhileNode final : public TransformNode<T> {
  static_assert(std::predicate<const F&, const T&>,
                "The predicate of take_while must be callable as fn(const element&), return bool, "
                "and be const (no mutable lambda)");

 public:
  TakeWhileNode(NodePtr<T> input, F predicate)
      : TransformNode<T>(std::move(input), "take_while"),
        predicate_(std::make_shared<const F>(std::move(predicate))) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& job) const override {
    return std::make_unique<TakeWhileIterator<F, T>>(
        this->input().iterator(job), Predicate<F>{predicate_, this->describe(), job.epoch});
  }
  std::int64_t cardinality() const override { return kUnknown; }
  /// Each shard ends independently.
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::shared_ptr<const F> predicate_;
};

}  // namespace internal

/// See `Dataset::take_while`.
template <class T, class F>
NodePtr<T> make_take_while(NodePtr<T> input, F predicate) {
  return std::make_shared<const internal::TakeWhileNode<F, T>>(std::move(input),
                                                               std::move(predicate));
}

}  // namespace brigade::data
