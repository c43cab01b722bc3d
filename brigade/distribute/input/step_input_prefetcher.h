#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/linked_token.h"
#include "brigade/concurrency/staging_thread.h"
#include "brigade/distribute/input/step_input_reader.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Prefetches the step inputs of a `StepInputReader` on a separate thread, if the input asks for
/// that: batches are split and copied to the devices while the previous step computes. Prefetching
/// changes neither the batches nor the saved positions: each prefetched input carries the position
/// after it.
///
/// The first `next()` starts the thread. It stops at the end of the data, in `restore`, in
/// `start_next_epoch` and in the destructor.
///
/// Thread-safety: one thread at a time.
template <class B>
class StepInputPrefetcher {
 public:
  /// Prefetches as many steps as `input.batches_ahead()` says; with 0, `next` reads each input
  /// itself. `start` may contain a token that cancels every wait for data.
  StepInputPrefetcher(const DistributedInput<B>& input, const data::IteratorOptions& start,
                      const data::StagesOptions& stages = {})
      : depth_(static_cast<std::size_t>(input.batches_ahead())),
        cancellation_(depth_ > 0 ? start.cancel : std::nullopt),
        reader_(input, depth_ > 0 ? cancelled_with_this(start) : start, stages) {}
  ~StepInputPrefetcher() { cancellation_.cancel(); }  // the thread may be waiting for data
  StepInputPrefetcher(const StepInputPrefetcher&) = delete;
  StepInputPrefetcher& operator=(const StepInputPrefetcher&) = delete;

  /// The input of the next step. At the end of the data, and after it, an input without batches.
  /// Throws the error of a batch that failed.
  StepInput<B> next() {
    StepInput<B> step_input = depth_ == 0 ? reader_.read() : take_prefetched();
    if (step_input.error) std::rethrow_exception(step_input.error);
    return step_input;
  }

  /// See `StepInputReader::empty_like`.
  DeviceBatch<B> empty_like(const B& batch, std::size_t local) const {
    return reader_.empty_like(batch, local);
  }
  std::uint64_t epoch() const { return reader_.epoch(); }
  std::vector<data::StageStats> stats() const { return reader_.stats(); }
  void start_next_epoch() {
    thread_ = nullptr;
    reader_.start_next_epoch();
    position_.reset();
  }
  /// The position after the input that `next` returned last.
  io::StateTree save() const { return position_ ? *position_ : reader_.save(); }
  void restore(const io::StateTree& state) {
    if (thread_) {  // undo the prefetching first: if the state is refused, `next` must still work
      thread_ = nullptr;
      reader_.restore(*position_);
    }
    position_.reset();
    reader_.restore(state);
  }

 private:
  struct Prefetched {
    StepInput<B> step_input;
    std::optional<io::StateTree> position;  // after it; unset if the read was cancelled
  };

  data::IteratorOptions cancelled_with_this(data::IteratorOptions start) const {
    start.cancel = cancellation_.token();
    return start;
  }

  StepInput<B> take_prefetched() {
    if (!thread_) {
      if (position_) return {};  // the end
      position_ = reader_.save();
      thread_ = std::make_unique<concurrency::StagingThread<Prefetched>>(
          concurrency::StagingThreadOptions{.name = "input prefetch", .depth = depth_},
          [this, is_over = false]() mutable { return prefetch(is_over); });
    }
    std::optional<Prefetched> prefetched = thread_->next();
    if (!prefetched) cancellation_.token().throw_if_cancelled("input prefetch");
    check_state(prefetched.has_value(), "The input's prefetching ended before the data did.");
    if (prefetched->position) position_ = std::move(prefetched->position);
    if (prefetched->step_input.is_last) thread_ = nullptr;
    return std::move(prefetched->step_input);
  }
  std::optional<Prefetched> prefetch(bool& is_over) {
    if (is_over) return std::nullopt;
    Prefetched prefetched{.step_input = reader_.read(), .position = {}};
    const bool is_cancelled = prefetched.step_input.error && cancellation_.token().is_cancelled();
    if (!is_cancelled) prefetched.position = reader_.save();
    is_over = prefetched.step_input.is_last || is_cancelled;
    return prefetched;
  }

  const std::size_t depth_;
  const concurrency::LinkedToken cancellation_;  // by the destructor or by the token of `start`
  StepInputReader<B> reader_;                    // used by the thread while it runs
  std::optional<io::StateTree> position_;  // after the last `next`; set once the thread has started
  std::unique_ptr<concurrency::StagingThread<Prefetched>> thread_;  // last: joined first
};

}  // namespace brigade::distribute
