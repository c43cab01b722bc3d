#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/batch.h"
#include "brigade/data/transforms/grouping.h"
#include "brigade/data/transforms/padding.h"

namespace brigade::data {

/// To what length `bucket_by_sequence_length` pads the elements of a batch.
enum class BucketPadding {
  kLongest,     ///< The longest element of the batch, or the length in the padding options.
  kToBoundary,  ///< One less than the upper boundary of the bucket; longer ones are errors.
  kOff,         ///< No padding: batches as from `batch`.
};

template <class T>
/// Options of `Dataset::bucket_by_sequence_length`.
struct BucketOptions {
  /// Returns the length of an element. Several threads may call it.
  std::function<std::int64_t(const T&)> length{};
  /// Ascending: {3, 5} makes buckets of the lengths below 3, of 3 and 4, and of 5 and more.
  std::vector<std::int64_t> boundaries{};
  /// Batch size of each bucket: one more than boundaries.
  std::vector<std::int64_t> batch_sizes{};
  /// To what length the elements of a batch are padded.
  BucketPadding pad = BucketPadding::kLongest;
  /// The padding values, as in `PaddedBatchOptions`.
  typename Padding<T>::Options padding{};
  /// What happens to the remaining elements of each bucket at the end.
  Remainder remainder = Remainder::kKeep;
};

namespace internal {

/// The settings that do not depend on the element type.
struct Buckets {
  std::vector<std::int64_t> boundaries;
  std::vector<std::int64_t> batch_sizes;
  BucketPadding pad = BucketPadding::kLongest;
  Remainder remainder = Remainder::kKeep;

  /// Throws kInvalidArgument if elements are padded to boundaries and the element is too long.
  std::int64_t bucket_of(std::int64_t length) const;
  std::int64_t batch_size(std::int64_t bucket) const;
  /// The maximum length of the bucket, if elements are padded to it.
  std::optional<std::int64_t> padded_length(std::int64_t bucket) const;
};

/// Throws kInvalidArgument unless the boundaries ascend and there is one batch size per bucket.
void check_buckets(const Buckets& buckets);
std::string name_of_buckets(const Buckets& buckets, std::string_view padding);

template <class T>
class BucketIterator final : public IteratorBase<typename Structure<T>::Batch> {
 public:
  using Batch = typename Structure<T>::Batch;

  BucketIterator(Grouping<T> groups, const Buckets& buckets,
                 const typename Padding<T>::Options& padding, BatchMemory memory)
      : groups_(std::move(groups)), buckets_(buckets), padding_(padding), memory_(memory) {}
  std::optional<Batch> next() override {
    auto group = next_group();
    if (!group) return std::nullopt;
    const BatchMemoryScope in_memory(memory_);
    if (buckets_.pad == BucketPadding::kOff) return Structure<T>::stack(std::move(group->elements));
    const auto length = buckets_.padded_length(group->key);
    return Padding<T>::stack(std::move(group->elements),
                             length ? Padding<T>::with_length(padding_, *length) : padding_);
  }
  std::uint64_t skip(std::uint64_t count) override {
    return skip_by(count, [this] { return next_group().has_value(); });  // makes no batches
  }
  io::StateTree save() const override {
    return make_position("bucket_by_sequence_length", {}, groups_.save(nullptr));
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "bucket_by_sequence_length");
    groups_.restore(position_input(state));
  }

 private:
  std::optional<Group<T>> next_group() {
    while (true) {
      auto group = groups_.next();
      if (!group || buckets_.remainder == Remainder::kKeep) return group;
      const auto size = static_cast<std::size_t>(buckets_.batch_size(group->key));
      if (group->elements.size() == size) return group;
    }
  }

  Grouping<T> groups_;
  const Buckets& buckets_;
  const typename Padding<T>::Options& padding_;
  const BatchMemory memory_;
};

/// Throws kInvalidArgument unless there is a function.
void check_length_function(bool is_given);

}  // namespace internal

/// See `Dataset::bucket_by_sequence_length`.
template <class T>
NodePtr<typename Structure<T>::Batch> make_bucket_by_sequence_length(
    NodePtr<T> input, const BucketOptions<T>& options) {
  using Batch = typename Structure<T>::Batch;
  internal::check_length_function(options.length != nullptr);
  Padding<T>::check(options.padding);
  internal::Buckets buckets{options.boundaries, options.batch_sizes, options.pad,
                            options.remainder};
  internal::check_buckets(buckets);
  internal::TransformSpec spec{
      .name = internal::name_of_buckets(buckets, Padding<T>::describe(options.padding)),
      .cardinality = internal::unknown_cardinality,
      .counts_elements = options.remainder == Remainder::kDrop,  // each shard drops its own
      .rereads_input = true};
  return internal::make_transform<Batch>(
      std::move(input), std::move(spec),
      [buckets = std::move(buckets), length = options.length, padding = options.padding](
          const Node<T>& from, const IteratorOptions& job, const Node<Batch>& self) {
        internal::GroupingRule<T> rule{
            .key = [&](const T& element) { return buckets.bucket_of(length(element)); },
            .size = [&](std::int64_t bucket) { return buckets.batch_size(bucket); },
            .where = self.describe(),
            .epoch = job.epoch};
        internal::ReplayableInput<T> elements(from.iterator(job), job.cancel);
        return std::make_unique<internal::BucketIterator<T>>(
            internal::Grouping<T>(std::move(elements), std::move(rule)), buckets, padding,
            job.batch_memory);
      });
}

}  // namespace brigade::data
