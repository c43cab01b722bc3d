#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/transform.h"

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
class AssertCardinalityIterator final : public TransformIterator<T> {
 public:
  AssertCardinalityIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t expected,
                            std::string where)
      : TransformIterator<T>(std::move(input), "assert_cardinality",
                             {{"place", index_}, {"has_ended", has_ended_}}),
        expected_(expected),
        where_(std::move(where)) {}
  std::optional<T> next() override {
    if (has_ended_) return std::nullopt;
    if (left() == 0) {
      end();
      return std::nullopt;
    }
    ++index_;  // counted even if it throws
    auto element = this->input_->next();
    if (element) return element;
    --index_;
    has_ended_ = true;
    throw_too_few(where_, expected_, index_);
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (has_ended_ || count == 0) return 0;
    const std::uint64_t wanted = std::min(count, left());
    const std::uint64_t passed = this->input_->skip(wanted);
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
  void restore(const io::StateTree& state) override {
    check_position(state, "assert_cardinality");
    check_source_position(position_number(state, "place"), expected_, where_);
    TransformIterator<T>::restore(state);
  }

 private:
  std::uint64_t left() const {
    if (expected_ == kInfinite) return ~std::uint64_t{0};
    return static_cast<std::uint64_t>(expected_) - index_;
  }
  /// All expected elements were read: throws if there is one more.
  void end() {
    has_ended_ = true;
    if (this->input_->skip(1) == 1) throw_too_many(where_, expected_);
  }

  std::int64_t expected_;
  std::string where_;
  std::uint64_t index_ = 0;
  bool has_ended_ = false;
};

}  // namespace internal

/// See `Dataset::assert_cardinality`.
template <class T>
NodePtr<T> make_assert_cardinality(NodePtr<T> input, std::int64_t count) {
  return internal::make_transform<T>(
      std::move(input),
      {.name = internal::name_of_assert_cardinality(count),
       .cardinality = [count](std::int64_t) { return count; },
       .counts_elements = true},  // a shard has fewer
      [count](const Node<T>& from, const IteratorOptions& job, const Node<T>& self) {
        return std::make_unique<internal::AssertCardinalityIterator<T>>(from.iterator(job), count,
                                                                        self.describe());
      });
}

}  // namespace brigade::data
