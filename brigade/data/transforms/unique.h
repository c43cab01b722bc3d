#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

namespace internal {

template <class T>
concept Hashable = requires(const T& element) {
  { std::hash<T>()(element) } -> std::convertible_to<std::size_t>;
}
&&std::equality_comparable<T>;

template <class T>
concept Ordered = requires(const T& a, const T& b) {
  { a < b } -> std::convertible_to<bool>;
};

template <class T>
struct SeenSet {
  using Type = std::set<T>;
};
template <Hashable T>
struct SeenSet<T> {
  using Type = std::unordered_set<T>;
};

template <class T>
class UniqueIterator final : public IteratorBase<T> {
 public:
  UniqueIterator(const Node<T>& input, const IteratorOptions& options)
      : node_(input), options_(options), cancel_poller_(options.cancel) {
    start();
  }
  std::optional<T> next() override {
    while (true) {
      cancel_poller_.poll();
      ++read_;  // counted even if it throws
      auto element = input_->next();
      if (!element) break;
      if (seen_.insert(*element).second) return element;
    }
    --read_;
    return std::nullopt;
  }
  io::StateTree save() const override { return make_position("unique", {{"read", read_}}); }
  /// Re-reads the input to determine which elements were seen.
  void restore(const io::StateTree& state) override {
    check_position(state, "unique");
    const std::uint64_t read = position_number(state, "read");
    check_source_position(read, node_.cardinality(), node_.describe());
    start();
    for (; read_ < read; ++read_) {
      cancel_poller_.poll();
      ElementResult<T> result = result_of_next(*input_);
      if (result.is_end()) {
        throw_data_too_short(base::str_cat("The position saved in unique is after element ", read,
                                           " of an input that now has fewer"));
      }
      if (result.element) seen_.insert(std::move(*result.element));
    }
  }

 private:
  void start() {
    input_ = node_.iterator(options_);  // the old iterator is kept if this throws
    seen_.clear();
    read_ = 0;
  }

  const Node<T>& node_;
  IteratorOptions options_;
  CancelPoller cancel_poller_;
  std::unique_ptr<IteratorBase<T>> input_;
  typename SeenSet<T>::Type seen_;
  std::uint64_t read_ = 0;  // elements of the input
};

}  // namespace internal

/// See `Dataset::unique`.
template <class T>
NodePtr<T> make_unique_elements(NodePtr<T> input) {
  static_assert(
      std::copy_constructible<T> && (internal::Hashable<T> || internal::Ordered<T>),
      "unique needs elements that can be copied and compared: with std::hash and ==, or with <");
  return internal::make_transform<T>(
      std::move(input),
      // Elements that are unique within a shard may occur in several shards.
      {.name = "unique",
       .cardinality = internal::unknown_cardinality,
       .counts_elements = true,
       .rereads_input = true},
      [](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<internal::UniqueIterator<T>>(from, job);
      });
}

}  // namespace brigade::data
