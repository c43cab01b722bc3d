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

/// Returns the transform's name. Throws kInvalidArgument unless `count` is 0 or more or
/// `kInfinite`.
std::string name_of_assert_cardinality(std::int64_t count);
[[noreturn]] void throw_too_few(const std::string& where, std::int64_t expected,
                                std::uint64_t found);
[[noreturn]] void throw_too_many(const std::string& where, std::int64_t expected);

/// A wrong number of elements is reported as a last element that fails.
template <class T>
class AssertCardinalityIterator final : public IteratorBase<T> {
 public:
  AssertCardinalityIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t expected,
                            std::string where)
      : input_(std::move(input)), expected_(expected), where_(std::move(where)) {}
  std::optional<T> next() override {
    if (has_ended_) return std::nullopt;
    if (left() == 0) {
      end();
      return std::nullopt;
    }
    ++index_;  // counted even if it throws
    auto element = input_->next();
    if (element) return element;
    --index_;
    has_ended_ = true;
    throw_too_few(where_, expected_, index_);
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (has_ended_ || count == 0) return 0;
    const std::uint64_t wanted = count < left() ? count : left();
    const std::uint64_t passed = input_->skip(wanted);
    index_ += passed;
    if (passed == count) return count;
    try {
      if (passed == wanted) {
        end();
        return passed;
      }
      has_ended_ = true;
    } catch (...) {  // one element too many: the error replaces it
      rethrow_if_cancelled();
    }
    return passed + 1;
  }
  io::StateTree save() const override {
    return make_position("assert_cardinality",
                         {{"place", index_}, {"has_ended", has_ended_ ? 1U : 0U}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "assert_cardinality");
    const std::uint64_t index = position_number(state, "place");
    const bool has_ended = position_number(state, "has_ended") != 0;
    check_source_position(index, expected_, where_);
    input_->restore(position_input(state));
    index_ = index;
    has_ended_ = has_ended;
  }

 private:
  std::uint64_t left() const {
    if (expected_ == kInfinite) return ~std::uint64_t{0};
    return static_cast<std::uint64_t>(expected_) - index_;
  }
  /// All expected elements were read: throws if there is one more.
  void end() {
    has_ended_ = true;
    if (input_->skip(1) == 1) throw_too_many(where_, expected_);
  }

  std::unique_ptr<IteratorBase<T>> input_;
  std::int64_t expected_;
  std::string where_;
  std::uint64_t index_ = 0;
  bool has_ended_ = false;
};

template <class T>
class AssertCardinalityNode final : public TransformNode<T> {
 public:
  AssertCardinalityNode(NodePtr<T> input, std::int64_t count)
      : TransformNode<T>(std::move(input), name_of_assert_cardinality(count)), count_(count) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& job) const override {
    return std::make_unique<AssertCardinalityIterator<T>>(this->input_in_any_order().iterator(job),
                                                          count_, this->describe());
  }
  std::int64_t cardinality() const override { return count_; }
  /// A shard has fewer elements.
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::int64_t count_;
};

}  // namespace internal

/// See `Dataset::assert_cardinality`.
template <class T>
NodePtr<T> make_assert_cardinality(NodePtr<T> input, std::int64_t count) {
  return std::make_shared<const internal::AssertCardinalityNode<T>>(std::move(input), count);
}

}  // namespace brigade::data
