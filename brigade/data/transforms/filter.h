#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/core/predicate.h"

namespace brigade::data {

namespace internal {

template <class F, class T>
class FilterIterator final : public IteratorBase<T> {
 public:
  FilterIterator(std::unique_ptr<IteratorBase<T>> input, Predicate<F> predicate,
                 CancelPoller cancel_poller)
      : input_(std::move(input)),
        predicate_(std::move(predicate)),
        cancel_poller_(std::move(cancel_poller)) {}
  std::optional<T> next() override {
    while (true) {
      cancel_poller_.poll();
      ++index_;  // counted even if it throws
      auto element = input_->next();
      if (!element) break;
      if (predicate_(*element, index_ - 1)) return element;
    }
    --index_;
    return std::nullopt;
  }
  io::StateTree save() const override {
    return make_position("filter", {{"place", index_}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "filter");
    const std::uint64_t index = position_number(state, "place");
    input_->restore(position_input(state));
    index_ = index;
  }

 private:
  std::unique_ptr<IteratorBase<T>> input_;
  Predicate<F> predicate_;
  CancelPoller cancel_poller_;
  std::uint64_t index_ = 0;  // elements read from the input
};

template <class F, class T>
class FilterNode final : public TransformNode<T> {
  static_assert(std::predicate<const F&, const T&>,
                "The predicate of filter must be callable as fn(const element&), return bool, and "
                "be const (no mutable lambda)");

 public:
  FilterNode(NodePtr<T> input, F predicate)
      : TransformNode<T>(std::move(input), "filter"),
        predicate_(std::make_shared<const F>(std::move(predicate))) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& job) const override {
    return std::make_unique<FilterIterator<F, T>>(
        this->input_in_any_order().iterator(job),
        Predicate<F>{predicate_, this->describe(), job.epoch}, CancelPoller(job.cancel));
  }
  std::int64_t cardinality() const override { return kUnknown; }

 private:
  std::shared_ptr<const F> predicate_;
};

}  // namespace internal

/// See `Dataset::filter`.
template <class T, class F>
NodePtr<T> make_filter(NodePtr<T> input, F predicate) {
  return std::make_shared<const internal::FilterNode<F, T>>(std::move(input), std::move(predicate));
}

}  // namespace brigade::data
