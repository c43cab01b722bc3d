#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/batch.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

namespace internal {

/// Iterates over the elements of a dataset of batches; any number of elements of the current batch
/// can be taken together.
///
/// Thread-safety: one thread at a time.
template <class B>
class BatchCursor {
 public:
  BatchCursor(std::unique_ptr<IteratorBase<B>> input,
              std::optional<concurrency::CancelToken> cancel)
      : input_(std::move(input), std::move(cancel)) {}

  /// Elements left in the current batch; 0 if there is none.
  std::int64_t left() const { return size_ - index_; }
  B& batch() { return *batch_; }
  /// The index of the first element of the current batch that was not taken.
  std::int64_t index() const { return index_; }
  void pass(std::int64_t count) { index_ += count; }

  /// Advances to the next batch that has elements; false at the end. Throws the error of a batch
  /// that failed, which is then skipped.
  bool open_next() {
    do {
      close();
      auto next = input_.next();
      if (next.result.is_end()) return false;
      batch_ = std::move(next.result).take();
      try {
        size_ = Unbatch<B>::size(*batch_);
      } catch (...) {
        close();
        throw;
      }
      at_ = std::move(next.at);
    } while (size_ == 0);
    return true;
  }

  io::StateTree save() const {
    const bool is_inside = left() > 0;
    io::StateTree state = save_replay_point(is_inside ? at_ : input_.position());
    state["index"] = is_inside ? static_cast<std::uint64_t>(index_) : 0U;
    return state;
  }
  void restore(const io::StateTree& state) {
    const ReplayPoint point = load_replay_point(state);
    const std::uint64_t index = state.as_uint64("index");
    close();
    input_.seek(point);
    if (index == 0) return;
    if (!open_next() || index > static_cast<std::uint64_t>(size_)) {
      throw_data_too_short(base::str_cat("The saved position is after element ", index,
                                         " of a batch that now has ", size_));
    }
    index_ = static_cast<std::int64_t>(index);
  }

 private:
  void close() {
    batch_ = std::nullopt;
    index_ = 0;
    size_ = 0;
  }

  ReplayableInput<B> input_;
  std::optional<B> batch_;
  ReplayPoint at_;  // of batch_
  std::int64_t index_ = 0;
  std::int64_t size_ = 0;
};

template <class B>
class UnbatchIterator final : public IteratorBase<typename Unbatch<B>::Element> {
 public:
  using Element = typename Unbatch<B>::Element;

  explicit UnbatchIterator(BatchCursor<B> batches) : batches_(std::move(batches)) {}
  std::optional<Element> next() override {
    if (batches_.left() == 0 && !batches_.open_next()) return std::nullopt;
    const std::int64_t index = batches_.index();
    batches_.pass(1);
    return Unbatch<B>::element(batches_.batch(), index);
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count) {
      try {
        if (batches_.left() == 0 && !batches_.open_next()) return passed;
      } catch (...) {  // a failed batch counts as one failed element
        rethrow_if_cancelled();
        ++passed;
        continue;
      }
      const std::uint64_t part =
          std::min(count - passed, static_cast<std::uint64_t>(batches_.left()));
      batches_.pass(static_cast<std::int64_t>(part));
      passed += part;
    }
    return passed;
  }
  io::StateTree save() const override { return make_position("unbatch", {}, batches_.save()); }
  void restore(const io::StateTree& state) override {
    check_position(state, "unbatch");
    batches_.restore(position_input(state));
  }

 private:
  BatchCursor<B> batches_;
};

/// Returns the transform's name. Throws kInvalidArgument unless there are sizes and each is at
/// least 1.
std::string name_of_rebatch(const std::vector<std::int64_t>& sizes, const BatchOptions& options);

template <class B>
class RebatchIterator final : public IteratorBase<B> {
 public:
  RebatchIterator(BatchCursor<B> batches, std::vector<std::int64_t> sizes, Remainder remainder,
                  BatchMemory memory)
      : batches_(std::move(batches)),
        sizes_(std::move(sizes)),
        remainder_(remainder),
        memory_(memory) {}
  std::optional<B> next() override {
    auto parts = gather();
    if (!parts) return std::nullopt;
    if (parts->size() == 1) return std::move(parts->front());
    const BatchMemoryScope in_memory(memory_);
    return Unbatch<B>::concatenate(std::move(*parts));
  }
  std::uint64_t skip(std::uint64_t count) override {
    return skip_by(count, [this] { return gather().has_value(); });
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
  BatchMemory memory_;
  std::uint64_t size_index_ = 0;  // of sizes_
};

}  // namespace internal

/// See `Dataset::unbatch`.
template <class B>
NodePtr<typename Unbatch<B>::Element> make_unbatch(NodePtr<B> input) {
  using Element = typename Unbatch<B>::Element;
  return internal::make_transform<Element>(
      std::move(input),
      {.name = "unbatch", .cardinality = internal::unknown_unless_infinite, .rereads_input = true},
      [](const Node<B>& from, const IteratorOptions& job, const Node<Element>&) {
        return std::make_unique<internal::UnbatchIterator<B>>(
            internal::BatchCursor<B>(from.iterator(job), job.cancel));
      });
}

/// See `Dataset::rebatch`.
template <class B>
NodePtr<B> make_rebatch(NodePtr<B> input, std::vector<std::int64_t> sizes, BatchOptions options) {
  internal::TransformSpec spec{.name = internal::name_of_rebatch(sizes, options),
                               .cardinality = internal::unknown_unless_infinite,
                               // Each shard drops its own remainder.
                               .counts_elements = options.remainder == Remainder::kDrop,
                               .rereads_input = true};
  return internal::make_transform<B>(
      std::move(input), std::move(spec),
      [sizes = std::move(sizes), options](const Node<B>& from, const IteratorOptions& job,
                                          const Node<B>&) {
        return std::make_unique<internal::RebatchIterator<B>>(
            internal::BatchCursor<B>(from.iterator(job), job.cancel), sizes, options.remainder,
            job.batch_memory);
      });
}

}  // namespace brigade::data
