#pragma once

#include <algorithm>
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
#include "brigade/data/transforms/batch.h"
#include "brigade/data/transforms/batch_cursor.h"
#include "brigade/data/core/structure.h"

namespace brigade::data {

namespace internal {

/// Returns the transform's name. Throws kInvalidArgument unless there are sizes and each is at
/// least 1.
std::string name_of_rebatch(const std::vector<std::int64_t>& sizes, const BatchOptions& options);

template <class B>
class RebatchIterator final : public IteratorBase<B> {
 public:
  RebatchIterator(BatchCursor<B> batches, std::vector<std::int64_t> sizes, Remainder remainder)
      : batches_(std::move(batches)), sizes_(std::move(sizes)), remainder_(remainder) {}
  std::optional<B> next() override {
    auto parts = gather();
    if (!parts) return std::nullopt;
    if (parts->size() == 1) return std::move(parts->front());
    return Unbatch<B>::concatenate(std::move(*parts));
  }
  std::uint64_t skip(std::uint64_t count) override {
    for (std::uint64_t passed = 0; passed < count; ++passed) {
      try {
        if (!gather()) return passed;
      } catch (...) {  // errors of skipped batches are ignored
        rethrow_if_cancelled();
      }
    }
    return count;
  }
  io::StateTree save() const override {
    return make_position("rebatch", {{"turn", size_index_}}, batches_.save());
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "rebatch");
    const std::uint64_t size_index = position_number(state, "turn");
    batches_.restore(position_input(state));
    size_index_ = size_index % sizes_.size();
  }

 private:
  /// The parts of the next batch. If one of the input batches that it is made from fails, it fails,
  /// and the next one starts after that input batch.
  std::optional<std::vector<B>> gather() {
    const std::int64_t size = sizes_[static_cast<std::size_t>(size_index_)];
    size_index_ = (size_index_ + 1) % sizes_.size();
    std::vector<B> parts;
    std::int64_t missing = size;
    while (missing > 0 && (batches_.left() > 0 || batches_.open_next())) {
      const std::int64_t part = std::min(missing, batches_.left());
      parts.push_back(take(part));
      missing -= part;
    }
    const bool is_dropped = remainder_ == Remainder::kDrop && missing > 0;
    if (parts.empty() || is_dropped) return std::nullopt;
    return parts;
  }
  B take(std::int64_t count) {
    const std::int64_t begin = batches_.index();
    const bool is_whole = begin == 0 && count == batches_.left();
    B part = is_whole ? std::move(batches_.batch())
                      : Unbatch<B>::slice(batches_.batch(), begin, begin + count);
    batches_.pass(count);
    return part;
  }

  BatchCursor<B> batches_;
  std::vector<std::int64_t> sizes_;
  Remainder remainder_;
  std::uint64_t size_index_ = 0;  // of sizes_
};

template <class B>
class RebatchNode final : public TransformNode<B> {
 public:
  RebatchNode(NodePtr<B> input, std::vector<std::int64_t> sizes, BatchOptions options)
      : TransformNode<B>(std::move(input), name_of_rebatch(sizes, options)),
        sizes_(std::move(sizes)),
        options_(options) {}
  std::unique_ptr<IteratorBase<B>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<RebatchIterator<B>>(
        BatchCursor<B>(this->input().iterator(options), options.cancel), sizes_,
        options_.remainder);
  }
  std::int64_t cardinality() const override {
    return this->input().cardinality() == kInfinite ? kInfinite : kUnknown;
  }
  /// Each shard drops its own remainder.
  ShardingInfo sharding() const override {
    return options_.remainder == Remainder::kDrop ? this->sharding_of_counter()
                                                  : this->input().sharding();
  }

 private:
  std::vector<std::int64_t> sizes_;
  BatchOptions options_;
};

}  // namespace internal

/// See `Dataset::rebatch`.
template <class B>
NodePtr<B> make_rebatch(NodePtr<B> input, std::vector<std::int64_t> sizes, BatchOptions options) {
  return std::make_shared<const internal::RebatchNode<B>>(std::move(input), std::move(sizes),
                                                          options);
}

}  // namespace brigade::data
