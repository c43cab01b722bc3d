#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/transforms/take.h"

namespace brigade::data {

namespace internal {

/// Returns the transform's name for messages. Throws kInvalidArgument if `count` is negative.
std::string name_of_skip(std::int64_t count);

template <class T>
class SkipIterator final : public IteratorBase<T> {
 public:
  SkipIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t count,
               std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input)), count_(count), cancel_(std::move(cancel)) {}
  std::optional<T> next() override {
    skip_the_head();
    return input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    skip_the_head();
    return input_->skip(count);
  }
  io::StateTree save() const override {
    return make_position("skip", {{"has_skipped", has_skipped_ ? 1U : 0U}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "skip");
    input_->restore(position_input(state));
    has_skipped_ = position_number(state, "has_skipped") != 0;
  }

 private:
  void skip_the_head() {  // only on the first `next`: creating an iterator must stay cheap
    if (has_skipped_) return;
    cancellable_skip(*input_, count_, cancel_);
    has_skipped_ = true;
  }

  std::unique_ptr<IteratorBase<T>> input_;
  std::uint64_t count_;
  std::optional<concurrency::CancelToken> cancel_;
  bool has_skipped_ = false;
};

template <class T>
class SkipNode final : public TransformNode<T> {
 public:
  SkipNode(NodePtr<T> input, std::int64_t count)
      : TransformNode<T>(std::move(input), name_of_skip(count)), count_(count) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<SkipIterator<T>>(this->input().iterator(options),
                                             static_cast<std::uint64_t>(count_), options.cancel);
  }
  std::int64_t cardinality() const override {
    return cardinality_of_skip(this->input().cardinality(), count_);
  }
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::int64_t count_;
};

}  // namespace internal

/// See `Dataset::skip`.
template <class T>
NodePtr<T> make_skip(NodePtr<T> input, std::int64_t count) {
  if (count == internal::kAll) return make_take(std::move(input), 0);
  return std::make_shared<const internal::SkipNode<T>>(std::move(input), count);
}

}  // namespace brigade::data
