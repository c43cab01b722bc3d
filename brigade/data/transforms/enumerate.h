#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

namespace internal {

std::string name_of_enumerate(std::int64_t start);

/// `start + index`, wrapping around from the largest number to the smallest.
std::int64_t number_of_element(std::int64_t start, std::uint64_t index);

template <class T>
class EnumerateIterator final : public IteratorBase<std::tuple<std::int64_t, T>> {
 public:
  using Numbered = std::tuple<std::int64_t, T>;

  EnumerateIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t start)
      : input_(std::move(input)), start_(start) {}
  std::optional<Numbered> next() override {
    const std::uint64_t index = index_++;  // counted even if it throws
    auto element = input_->next();
    if (element) return Numbered(number_of_element(start_, index), std::move(*element));
    --index_;
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = input_->skip(count);
    index_ += passed;
    return passed;
  }
  io::StateTree save() const override {
    return make_position("enumerate", {{"place", index_}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "enumerate");
    const std::uint64_t index = position_number(state, "place");
    input_->restore(position_input(state));
    index_ = index;
  }

 private:
  std::unique_ptr<IteratorBase<T>> input_;
  std::int64_t start_;
  std::uint64_t index_ = 0;
};

template <class T>
class EnumerateNode final : public TransformNode<std::tuple<std::int64_t, T>, T> {
 public:
  using Numbered = std::tuple<std::int64_t, T>;

  EnumerateNode(NodePtr<T> input, std::int64_t start)
      : TransformNode<Numbered, T>(std::move(input), name_of_enumerate(start)), start_(start) {}
  std::unique_ptr<IteratorBase<Numbered>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<EnumerateIterator<T>>(this->input_in_any_order().iterator(options),
                                                  start_);
  }
  std::int64_t cardinality() const override { return this->input().cardinality(); }
  /// Each shard would start counting at `start`.
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::int64_t start_;
};

}  // namespace internal

/// See `Dataset::enumerate`.
template <class T>
NodePtr<std::tuple<std::int64_t, T>> make_enumerate(NodePtr<T> input, std::int64_t start) {
  return std::make_shared<const internal::EnumerateNode<T>>(std::move(input), start);
}

}  // namespace brigade::data
