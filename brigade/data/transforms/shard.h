#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/core/sharding.h"

namespace brigade::data {

namespace internal {

/// Returns the transform's name. Throws kInvalidArgument unless the shard exists.
std::string name_of_shard(std::int64_t count, std::int64_t index);

template <class T>
class ShardIterator final : public IteratorBase<T> {
 public:
  ShardIterator(std::unique_ptr<IteratorBase<T>> input, std::uint64_t shards, std::uint64_t index)
      : input_(std::move(input)), shards_(shards), index_(index) {}
  std::optional<T> next() override {
    input_->skip(others_in_front());
    has_begun_ = true;  // the element counts as passed even if it throws
    return input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (count == 0) return 0;
    const std::uint64_t others = others_in_front();
    const std::uint64_t wanted =
        saturating_add(others + 1, saturating_multiply(count - 1, shards_));
    const std::uint64_t passed = input_->skip(wanted);
    if (passed <= others) return 0;
    has_begun_ = true;
    return (passed - others - 1) / shards_ + 1;
  }
  io::StateTree save() const override {
    return make_position("shard", {{"has_begun", has_begun_ ? 1U : 0U}}, input_->save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "shard");
    input_->restore(position_input(state));
    has_begun_ = position_number(state, "has_begun") != 0;
  }

 private:
  /// Elements of other shards before this one's next.
  std::uint64_t others_in_front() const { return has_begun_ ? shards_ - 1 : index_; }

  std::unique_ptr<IteratorBase<T>> input_;
  std::uint64_t shards_;
  std::uint64_t index_;
  bool has_begun_ = false;
};

template <class T>
class ShardNode final : public TransformNode<T> {
 public:
  ShardNode(NodePtr<T> input, std::int64_t count, std::int64_t index)
      : TransformNode<T>(std::move(input), name_of_shard(count, index)),
        count_(count),
        index_(index) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<ShardIterator<T>>(this->input().iterator(options),
                                              static_cast<std::uint64_t>(count_),
                                              static_cast<std::uint64_t>(index_));
  }
  std::int64_t cardinality() const override {
    return cardinality_of_shard(this->input().cardinality(), count_, index_);
  }
  ShardingInfo sharding() const override { return this->sharding_of_counter(); }

 private:
  std::int64_t count_;
  std::int64_t index_;
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
    return std::make_unique<ShardIterator<T>>(this->input().iterator(of_input),
                                              static_cast<std::uint64_t>(shard.count),
                                              static_cast<std::uint64_t>(shard.index));
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
  return std::make_shared<const internal::ShardNode<T>>(std::move(input), count, index);
}

/// See `Dataset::shard_hint`.
template <class T>
NodePtr<T> make_shard_hint(NodePtr<T> input) {
  return std::make_shared<const internal::ShardHintNode<T>>(std::move(input));
}

}  // namespace brigade::data
