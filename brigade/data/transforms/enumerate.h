#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/core/indexed_source.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

namespace internal {

template <class T>
class EnumerateIterator final : public TransformIterator<std::tuple<std::int64_t, T>, T> {
 public:
  using Numbered = std::tuple<std::int64_t, T>;

  EnumerateIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t start)
      : TransformIterator<Numbered, T>(std::move(input), "enumerate", {{"place", index_}}),
        start_(start) {}
  std::optional<Numbered> next() override {
    const std::uint64_t index = index_++;  // counted even if it throws
    auto element = this->input_->next();
    if (element) {
      return Numbered(number_at(start_, 1, static_cast<std::int64_t>(index)), std::move(*element));
    }
    --index_;
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = this->input_->skip(count);
    index_ += passed;
    return passed;
  }

 private:
  std::int64_t start_;
  std::uint64_t index_ = 0;
};

}  // namespace internal

/// See `Dataset::enumerate`.
template <class T>
NodePtr<std::tuple<std::int64_t, T>> make_enumerate(NodePtr<T> input, std::int64_t start) {
  using Numbered = std::tuple<std::int64_t, T>;
  return internal::make_transform<Numbered>(
      std::move(input),
      // Each shard would start counting at `start`.
      {.name = base::str_cat("enumerate(", start, ")"), .counts_elements = true},
      [start](const Node<T>& from, const IteratorOptions& job, const Node<Numbered>&) {
        return std::make_unique<internal::EnumerateIterator<T>>(from.iterator(job), start);
      });
}

}  // namespace brigade::data
