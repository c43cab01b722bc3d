#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/core/structure.h"

namespace brigade::data {

/// What happens to a last batch with fewer elements.
enum class Remainder {
  kKeep,  ///< It is smaller than the others.
  kDrop,  ///< It is dropped, so that every batch has the same size.
};

struct BatchOptions {
  Remainder remainder = Remainder::kKeep;
};

namespace internal {

/// Returns the transform's name. Throws kInvalidArgument unless `size` is at least 1.
std::string name_of_batch(std::int64_t size, const BatchOptions& options);
std::string fixed_name_of_batch(const BatchOptions& options);

/// How `batch` combines elements; `padded_batch` has its own function.
template <class T>
struct PlainStack {
  static constexpr const char* kTransform = "batch";
  auto operator()(std::vector<T>&& elements) const {
    return Structure<T>::stack(std::move(elements));
  }
};

template <class T, class Stack = PlainStack<T>>
class BatchIterator final : public IteratorBase<typename Structure<T>::Batch> {
 public:
  using Batch = typename Structure<T>::Batch;

  BatchIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t size, Remainder remainder,
                Stack stack = {})
      : input_(std::move(input)), size_(size), remainder_(remainder), stack_(std::move(stack)) {}

  std::optional<Batch> next() override {
    std::vector<T> elements;
    elements.reserve(last_size_);
    while (elements.size() < size_) {
      auto element = next_or_pass_rest(elements.size());  // unset at the end
      if (!element) break;
      elements.push_back(std::move(*element));
    }
    last_size_ = elements.size();
    const bool is_dropped = remainder_ == Remainder::kDrop && elements.size() < size_;
    if (elements.empty() || is_dropped) return std::nullopt;
    return stack_(std::move(elements));
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = input_->skip(saturating_multiply(count, size_));
    const bool has_partial = remainder_ == Remainder::kKeep && passed % size_ != 0;
    return passed / size_ + (has_partial ? 1 : 0);
  }
  io::StateTree save() const override {
    return make_position(Stack::kTransform, {}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, Stack::kTransform);
    input_->restore(position_input(state));
  }

 private:
  /// If an element fails, the whole batch fails; the next batch starts at the usual position. The
  /// error of a batch that is dropped anyway is dropped too.
  std::optional<T> next_or_pass_rest(std::uint64_t position) {
    try {
      return input_->next();
    } catch (...) {
      rethrow_if_cancelled();
      const std::uint64_t rest = size_ - position - 1;
      const bool is_whole = input_->skip(rest) == rest;
      if (is_whole || remainder_ == Remainder::kKeep) throw;
      return std::nullopt;
    }
  }

  std::unique_ptr<IteratorBase<T>> input_;
  std::uint64_t size_;
  Remainder remainder_;
  Stack stack_;
  std::size_t last_size_ = 0;  // used to reserve memory for the next batch
};

template <class T>
class BatchNode final : public TransformNode<typename Structure<T>::Batch, T> {
 public:
  using Batch = typename Structure<T>::Batch;

  BatchNode(NodePtr<T> input, std::int64_t size, BatchOptions options)
      : TransformNode<Batch, T>(std::move(input), name_of_batch(size, options),
                                fixed_name_of_batch(options)),
        size_(size),
        options_(options) {}
  std::unique_ptr<IteratorBase<Batch>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<BatchIterator<T>>(this->input_in_any_order().iterator(options),
                                              static_cast<std::uint64_t>(size_),
                                              options_.remainder);
  }
  std::int64_t cardinality() const override {
    return cardinality_of_batch(this->input().cardinality(), size_,
                                options_.remainder == Remainder::kDrop);
  }
  /// Each shard drops its own remainder.
  ShardingInfo sharding() const override {
    return options_.remainder == Remainder::kDrop ? this->sharding_of_counter()
                                                  : this->input().sharding();
  }

 private:
  std::int64_t size_;
  BatchOptions options_;
};

}  // namespace internal

/// See `Dataset::batch`.
template <class T>
NodePtr<typename Structure<T>::Batch> make_batch(NodePtr<T> input, std::int64_t size,
                                                 BatchOptions options) {
  return std::make_shared<const internal::BatchNode<T>>(std::move(input), size, options);
}

}  // namespace brigade::data
