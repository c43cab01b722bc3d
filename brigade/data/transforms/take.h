#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

namespace internal {

/// For `take` and `skip`: all elements.
inline constexpr std::int64_t kAll = -1;

/// The transforms' names for messages. Throw kInvalidArgument if `count` is negative.
std::string name_of_take(std::int64_t count);
std::string name_of_skip(std::int64_t count);

template <class T>
class TakeIterator final : public TransformIterator<T> {
 public:
  TakeIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t count)
      : TransformIterator<T>(std::move(input), "take", {{"taken", taken_}}), count_(count) {}
  std::optional<T> next() override {
    if (taken_ >= count_) return std::nullopt;
    ++taken_;
    return this->input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = this->input_->skip(std::min(count, count_ - taken_));
    taken_ += passed;
    return passed;
  }
  void restore(const io::StateTree& state) override {
    TransformIterator<T>::restore(state);
    taken_ = std::min(taken_, count_);
  }

 private:
  std::uint64_t count_;
  std::uint64_t taken_ = 0;
};

template <class T>
class SkipIterator final : public TransformIterator<T> {
 public:
  SkipIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t count,
               std::optional<concurrency::CancelToken> cancel)
      : TransformIterator<T>(std::move(input), "skip", {{"has_skipped", has_skipped_}}),
        count_(count),
        cancel_(std::move(cancel)) {}
  std::optional<T> next() override {
    skip_the_head();
    return this->input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    skip_the_head();
    return this->input_->skip(count);
  }

 private:
  void skip_the_head() {  // only on the first `next`: creating an iterator must stay cheap
    if (has_skipped_) return;
    cancellable_skip(*this->input_, count_, cancel_);
    has_skipped_ = true;
  }

  std::uint64_t count_;
  std::optional<concurrency::CancelToken> cancel_;
  bool has_skipped_ = false;
};

}  // namespace internal

/// See `Dataset::take`.
template <class T>
NodePtr<T> make_take(NodePtr<T> input, std::int64_t count) {
  if (count == internal::kAll) return input;
  return internal::make_transform<T>(
      std::move(input),
      {.name = internal::name_of_take(count),
       .fixed = "take",
       .cardinality = [count](std::int64_t all) { return cardinality_of_take(all, count); },
       .counts_elements = true},
      [count](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<internal::TakeIterator<T>>(from.iterator(job),
                                                           static_cast<std::uint64_t>(count));
      });
}

/// See `Dataset::skip`.
template <class T>
NodePtr<T> make_skip(NodePtr<T> input, std::int64_t count) {
  if (count == internal::kAll) return make_take(std::move(input), 0);
  return internal::make_transform<T>(
      std::move(input),
      {.name = internal::name_of_skip(count),
       .cardinality = [count](std::int64_t all) { return cardinality_of_skip(all, count); },
       .counts_elements = true,
       .rereads_input = true},
      [count](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<internal::SkipIterator<T>>(
            from.iterator(job), static_cast<std::uint64_t>(count), job.cancel);
      });
}

}  // namespace brigade::data
