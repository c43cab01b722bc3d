#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/core/sharding.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

namespace internal {

template <class T>
class ShardIterator final : public TransformIterator<T> {
 public:
  ShardIterator(std::unique_ptr<IteratorBase<T>> input, std::int64_t shards, std::int64_t index)
      : TransformIterator<T>(std::move(input), "shard", {{"has_begun", has_begun_}}),
        shards_(static_cast<std::uint64_t>(shards)),
        index_(static_cast<std::uint64_t>(index)) {}
  std::optional<T> next() override {
    this->input_->skip(others_in_front());
    has_begun_ = true;  // the element counts as passed even if it throws
    return this->input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (count == 0) return 0;
    const std::uint64_t others = others_in_front();
    const std::uint64_t wanted =
        saturating_add(others + 1, saturating_multiply(count - 1, shards_));
    const std::uint64_t passed = this->input_->skip(wanted);
    if (passed <= others) return 0;
    has_begun_ = true;
    return (passed - others - 1) / shards_ + 1;
  }

 private:
  /// Elements of other shards before this one's next.
  std::uint64_t others_in_front() const { return has_begun_ ? shards_ - 1 : index_; }

  std::uint64_t shards_;
  std::uint64_t index_;
  bool has_begun_ = false;
};

/// When the dataset is sharded by hint, this step drops the elements of the other shards; the steps
/// before it are the same in all shards. Otherwise it does nothing.
template <class T>
class ShardHintNode final : public TransformNode<T> {
 public:
  explicit ShardHintNode(NodePtr<T> input) : TransformNode<T>(std::move(input), "shard_hint") {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    const Shard shard = options.shard.by == ShardBy::kHint ? options.shard : Shard();
    IteratorOptions of_input = options;
    if (options.shard.by == ShardBy::kHint) of_input.shard = Shard();
    return std::make_unique<ShardIterator<T>>(this->input().iterator(of_input), shard.count,
                                              shard.index);
  }
  std::int64_t cardinality() const override { return this->input().cardinality(); }
  ShardingInfo sharding() const override {
    ShardingInfo sharding = this->input().sharding();
    sharding.has_hint = true;
    return sharding;
  }
};

}  // namespace internal

/// See `Dataset::shard`.
template <class T>
NodePtr<T> make_shard(NodePtr<T> input, std::int64_t count, std::int64_t index) {
  check_shard(count, index, "shard");
  return internal::make_transform<T>(
      std::move(input),
      {.name = base::str_cat("shard(", count, ", ", index, ")"),
       .cardinality = [count,
                       index](std::int64_t all) { return cardinality_of_shard(all, count, index); },
       .counts_elements = true,
       .rereads_input = true},
      [count, index](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<internal::ShardIterator<T>>(from.iterator(job), count, index);
      });
}

/// See `Dataset::shard_hint`.
template <class T>
NodePtr<T> make_shard_hint(NodePtr<T> input) {
  return std::make_shared<const internal::ShardHintNode<T>>(std::move(input));
}

}  // namespace brigade::data
