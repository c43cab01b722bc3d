#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/replay_point.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/structure.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

[[noreturn]] void throw_batch_too_short(std::uint64_t index, std::int64_t size);

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
      throw_batch_too_short(index, size_);
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

}  // namespace brigade::data::internal
