#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/transforms/batch.h"
#include "brigade/data/transforms/padding.h"

namespace brigade::data {

template <class T>
struct PaddedBatchOptions {
  /// The lengths and the padding values: `Padding<T>::Options`.
  typename Padding<T>::Options padding{};
  Remainder remainder = Remainder::kKeep;
};

namespace internal {

/// Returns the transform's name. Throws kInvalidArgument unless `size` is at least 1.
std::string name_of_padded_batch(std::int64_t size, std::string_view padding, Remainder remainder);

template <class T>
struct PaddedStack {
  static constexpr const char* kTransform = "padded_batch";
  typename Padding<T>::Options padding{};
  auto operator()(std::vector<T>&& elements) const {
    return Padding<T>::stack(std::move(elements), padding);
  }
};

template <class T>
class PaddedBatchNode final : public TransformNode<typename Structure<T>::Batch, T> {
 public:
  using Batch = typename Structure<T>::Batch;

  PaddedBatchNode(NodePtr<T> input, std::int64_t size, PaddedBatchOptions<T> options)
      : TransformNode<Batch, T>(
            std::move(input),
            name_of_padded_batch(size, Padding<T>::describe(options.padding), options.remainder)),
        size_(size),
        options_(std::move(options)) {
    Padding<T>::check(options_.padding);
  }
  std::unique_ptr<IteratorBase<Batch>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<BatchIterator<T, PaddedStack<T>>>(
        this->input_in_any_order().iterator(options), static_cast<std::uint64_t>(size_),
        options_.remainder, PaddedStack<T>{options_.padding});
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
  PaddedBatchOptions<T> options_;
};

}  // namespace internal

/// See `Dataset::padded_batch`.
template <class T>
NodePtr<typename Structure<T>::Batch> make_padded_batch(NodePtr<T> input, std::int64_t size,
                                                        PaddedBatchOptions<T> options) {
  return std::make_shared<const internal::PaddedBatchNode<T>>(std::move(input), size,
                                                              std::move(options));
}

}  // namespace brigade::data
