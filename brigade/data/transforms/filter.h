#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/map.h"

namespace brigade::data {

namespace internal {

/// A user's predicate on elements; its errors name the step and the element.
///
/// Thread-safety: as the function.
template <class F>
struct Predicate {
  std::shared_ptr<const F> function;
  std::string where;
  std::uint64_t epoch;

  /// Whether it holds for `element`; `index` is counted from the start of the epoch.
  template <class T>
  bool operator()(const T& element, std::uint64_t index) const {
    try {
      return (*function)(element);
    } catch (...) {
      rethrow_at_element(where, epoch, index);
    }
  }
};

template <class F, class T>
class FilterIterator final : public TransformIterator<T> {
 public:
  FilterIterator(std::unique_ptr<IteratorBase<T>> input, Predicate<F> predicate,
                 CancelPoller cancel_poller)
      : TransformIterator<T>(std::move(input), "filter", {{"place", index_}}),
        predicate_(std::move(predicate)),
        cancel_poller_(std::move(cancel_poller)) {}
  std::optional<T> next() override {
    while (true) {
      cancel_poller_.poll();
      ++index_;  // counted even if it throws
      auto element = this->input_->next();
      if (!element) break;
      if (predicate_(*element, index_ - 1)) return element;
    }
    --index_;
    return std::nullopt;
  }

 private:
  Predicate<F> predicate_;
  CancelPoller cancel_poller_;
  std::uint64_t index_ = 0;  // elements read from the input
};

template <class F, class T>
class TakeWhileIterator final : public TransformIterator<T> {
 public:
  TakeWhileIterator(std::unique_ptr<IteratorBase<T>> input, Predicate<F> predicate)
      : TransformIterator<T>(std::move(input), "take_while",
                             {{"place", index_}, {"has_ended", has_ended_}}),
        predicate_(std::move(predicate)) {}
  std::optional<T> next() override {
    if (has_ended_) return std::nullopt;
    ++index_;  // counted even if it throws
    auto element = this->input_->next();
    if (element && predicate_(*element, index_ - 1)) return element;
    --index_;
    has_ended_ = true;
    return std::nullopt;
  }

 private:
  Predicate<F> predicate_;
  std::uint64_t index_ = 0;
  bool has_ended_ = false;
};

}  // namespace internal

/// See `Dataset::filter`.
template <class T, class F>
NodePtr<T> make_filter(NodePtr<T> input, F predicate) {
  static_assert(std::predicate<const F&, const T&>,
                "The predicate of filter must be callable as fn(const element&), return bool, and "
                "be const (no mutable lambda)");
  return internal::make_transform<T>(
      std::move(input), {.name = "filter", .cardinality = internal::unknown_cardinality},
      [shared = std::make_shared<const F>(std::move(predicate))](
          const Node<T>& from, const IteratorOptions& job, const Node<T>& self) {
        return std::make_unique<internal::FilterIterator<F, T>>(
            from.iterator(job), internal::Predicate<F>{shared, self.describe(), job.epoch},
            internal::CancelPoller(job.cancel));
      });
}

/// See `Dataset::take_while`.
template <class T, class F>
NodePtr<T> make_take_while(NodePtr<T> input, F predicate) {
  static_assert(std::predicate<const F&, const T&>,
                "The predicate of take_while must be callable as fn(const element&), return bool, "
                "and be const (no mutable lambda)");
  return internal::make_transform<T>(
      std::move(input),
      {.name = "take_while",
       .cardinality = internal::unknown_cardinality,
       .counts_elements = true,  // each shard ends independently
       .rereads_input = true},
      [shared = std::make_shared<const F>(std::move(predicate))](
          const Node<T>& from, const IteratorOptions& job, const Node<T>& self) {
        return std::make_unique<internal::TakeWhileIterator<F, T>>(
            from.iterator(job), internal::Predicate<F>{shared, self.describe(), job.epoch});
      });
}

}  // namespace brigade::data
