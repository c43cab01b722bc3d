#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/batch_memory.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/padding.h"

namespace brigade::data {

/// What happens to a last batch with fewer elements.
enum class Remainder {
  kKeep,  ///< It is smaller than the others.
  kDrop,  ///< It is dropped, so that every batch has the same size.
};

/// Options of `Dataset::batch`.
struct BatchOptions {
  Remainder remainder = Remainder::kKeep;
};

template <class T>
/// Options of `Dataset::padded_batch`.
struct PaddedBatchOptions {
  /// The lengths and the padding values: `Padding<T>::Options`.
  typename Padding<T>::Options padding{};
  Remainder remainder = Remainder::kKeep;
};

namespace internal {

/// The transforms' names. Throw kInvalidArgument unless `size` is at least 1.
std::string name_of_batch(std::int64_t size, const BatchOptions& options);
std::string fixed_name_of_batch(const BatchOptions& options);
std::string name_of_padded_batch(std::int64_t size, std::string_view padding, Remainder remainder);

/// What all transforms that make batches of `size` elements have in common.
TransformSpec spec_of_batch(std::string name, std::string fixed, std::int64_t size,
                            Remainder remainder);

/// How `batch` and `padded_batch` combine elements.
template <class T>
struct PlainStack {
  static constexpr const char* kTransform = "batch";
  auto operator()(std::vector<T>&& elements) const {
    return Structure<T>::stack(std::move(elements));
  }
};
template <class T>
struct PaddedStack {
  static constexpr const char* kTransform = "padded_batch";
  typename Padding<T>::Options padding{};
  auto operator()(std::vector<T>&& elements) const {
    return Padding<T>::stack(std::move(elements), padding);
  }
};

template <class T, class Stack>
class BatchIterator final : public TransformIterator<typename Structure<T>::Batch, T> {
 public:
  using Batch = typename Structure<T>::Batch;

  BatchIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t size, Remainder remainder,
                Stack stack, BatchMemory memory)
      : TransformIterator<Batch, T>(std::move(input), Stack::kTransform),
        size_(static_cast<std::uint64_t>(size)),
        remainder_(remainder),
        stack_(std::move(stack)),
        memory_(memory) {}

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
    const BatchMemoryScope in_memory(memory_);
    return stack_(std::move(elements));
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed = this->input_->skip(saturating_multiply(count, size_));
    const bool has_partial = remainder_ == Remainder::kKeep && passed % size_ != 0;
    return passed / size_ + (has_partial ? 1 : 0);
  }

 private:
  /// If an element fails, the whole batch fails; the next batch starts at the usual position. The
  /// error of a batch that is dropped anyway is dropped too.
  std::optional<T> next_or_pass_rest(std::uint64_t position) {
    try {
      return this->input_->next();
    } catch (...) {
      rethrow_if_cancelled();
      const std::uint64_t rest = size_ - position - 1;
      const bool is_whole = this->input_->skip(rest) == rest;
      if (is_whole || remainder_ == Remainder::kKeep) throw;
      return std::nullopt;
    }
  }

  std::uint64_t size_;
  Remainder remainder_;
  Stack stack_;
  BatchMemory memory_;
  std::size_t last_size_ = 0;  // used to reserve memory for the next batch
};

template <class T, class Stack>
NodePtr<typename Structure<T>::Batch> make_batches(NodePtr<T> input, TransformSpec spec,
                                                   std::int64_t size, Remainder remainder,
                                                   Stack stack) {
  using Batch = typename Structure<T>::Batch;
  return make_transform<Batch>(
      std::move(input), std::move(spec),
      [size, remainder, stack = std::move(stack)](const Node<T>& from, const IteratorOptions& job,
                                                  const Node<Batch>&) {
        return std::make_unique<BatchIterator<T, Stack>>(from.iterator(job), size, remainder, stack,
                                                         job.batch_memory);
      });
}

}  // namespace internal

/// See `Dataset::batch`.
template <class T>
NodePtr<typename Structure<T>::Batch> make_batch(NodePtr<T> input, std::int64_t size,
                                                 BatchOptions options) {
  return internal::make_batches(
      std::move(input),
      internal::spec_of_batch(internal::name_of_batch(size, options),
                              internal::fixed_name_of_batch(options), size, options.remainder),
      size, options.remainder, internal::PlainStack<T>());
}

/// See `Dataset::padded_batch`.
template <class T>
NodePtr<typename Structure<T>::Batch> make_padded_batch(NodePtr<T> input, std::int64_t size,
                                                        PaddedBatchOptions<T> options) {
  const std::string name = internal::name_of_padded_batch(
      size, Padding<T>::describe(options.padding), options.remainder);
  Padding<T>::check(options.padding);
  return internal::make_batches(
      std::move(input), internal::spec_of_batch(name, name, size, options.remainder), size,
      options.remainder, internal::PaddedStack<T>{std::move(options.padding)});
}

}  // namespace brigade::data
