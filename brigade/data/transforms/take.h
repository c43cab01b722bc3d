#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

namespace internal {

/// For `take` and `skip`: all elements.
inline constexpr std::int64_t kAll = -1;

/// Returns the transform's name for messages. Throws kInvalidArgument if `count` is negative.
std::string name_of_take(std::int64_t count);

template <class T>
class TakeIterator final : public IteratorBase<T> {
 public:
  TakeIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t count)
      : input_(std::move(input)), count_(count) {}
  std::optional<T> next() override {
    if (taken_ >= count_) return std::nullopt;
    ++taken_;
    return input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t left = count_ - taken_;
    const std::uint64_t passed = input_->skip(count < left ? count : left);
    taken_ += passed;
    return passed;
  }
  io::StateTree save() const override {
    return make_position("take", {{"taken", taken_}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "take");
    input_->restore(position_input(state));
    const std::uint64_t taken = position_number(state, "taken");
    taken_ = taken < count_ ? taken : count_;
  }

 private:
  std::unique_ptr<IteratorBase<T>> input_;
  std::uint64_t count_;
  std::uint64_t taken_ = 0;
};

template <class T>
class TakeNode final : public TransformNode<T> {
 public:
  TakeNode(NodePtr<T> input, std::int64_t count)
      : TransformNode<T>(std::move(input), name_of_take(count), "take"), count_(count) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<TakeIterator<T>>(this->input_in_any_order().iterator(options),
                                             static_cast<std::uint64_t>(count_));
  }
  std::int64_t cardinality() const override {
    return cardinality_of_take(this->input().cardinality(), count_);
  }
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::int64_t count_;
};

}  // namespace internal

/// See `Dataset::take`.
template <class T>
NodePtr<T> make_take(NodePtr<T> input, std::int64_t count) {
  if (count == internal::kAll) return input;
  return std::make_shared<const internal::TakeNode<T>>(std::move(input), count);
}

}  // namespace brigade::data
