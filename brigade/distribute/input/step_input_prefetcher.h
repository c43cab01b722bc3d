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

/// The turns of a `StepInputReader`, drawn ahead on a thread of their own where that is asked for:
/// batches are cut and on their way to the devices while the step before computes. What comes, and
/// what is saved, is the same: each turn that was drawn ahead brings the position behind it.
///
/// The thread starts with the first `next()`, and ends at the end of the data, with `restore`,
/// `start_next_epoch` and this object.
///
/// Thread-safety: one thread at a time.
template <class B>
class StepInputPrefetcher {
 public:
  /// As many turns ahead as `input` asks for; 0: each is drawn when it is wanted. `start` may bring
  /// a token that ends every wait for data.
  StepInputPrefetcher(const DistributedInput<B>& input, const data::IteratorOptions& start,
              const data::StagesOptions& stages = {})
      : depth_(static_cast<std::size_t>(input.batches_ahead())),
        end_(depth_ > 0 ? start.cancel : std::nullopt),
        reader_(input, depth_ > 0 ? ended_with_this(start) : start, stages) {}
  ~StepInputPrefetcher() { end_.cancel(); }  // a thread that waits for data does not keep its owner waiting
  StepInputPrefetcher(const StepInputPrefetcher&) = delete;
  StepInputPrefetcher& operator=(const StepInputPrefetcher&) = delete;

  /// The next turn; one without shares at the end, and from then on. Throws the error of a batch
  /// that failed.
  StepInput<B> next() {
    StepInput<B> step_input = depth_ == 0 ? reader_.read() : take_staged();
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
  /// The position behind the turn that `next` returned last.
  io::StateTree save() const { return position_ ? *position_ : reader_.save(); }
  void restore(const io::StateTree& state) {
    if (thread_) {  // it is ahead: where the state is refused, this goes on behind the last turn
      thread_ = nullptr;
      reader_.restore(*position_);
    }
    position_.reset();
    reader_.restore(state);
  }

 private:
  struct Staged {
    StepInput<B> step_input;
    std::optional<io::StateTree> position;  // behind it; none where a cancelled walk passed nothing
  };

  data::IteratorOptions ended_with_this(data::IteratorOptions start) const {
    start.cancel = end_.token();
    return start;
  }

  StepInput<B> take_staged() {
    if (!thread_) {
      if (position_) return {};  // the end
      position_ = reader_.save();
      thread_ = std::make_unique<concurrency::StagingThread<Staged>>(
          concurrency::StagingThreadOptions{.name = "input staging", .depth = depth_},
          [this, is_over = false]() mutable { return draw_ahead(is_over); });
    }
    std::optional<Staged> staged = thread_->next();
    if (!staged) end_.token().throw_if_cancelled("input staging");
    check_state(staged.has_value(), "The input's staging ended before the data did.");
    if (staged->position) position_ = std::move(staged->position);
    if (staged->step_input.is_last) thread_ = nullptr;
    return std::move(staged->step_input);
  }
  std::optional<Staged> draw_ahead(bool& is_over) {
    if (is_over) return std::nullopt;
    Staged staged{.step_input = reader_.read(), .position = {}};
    const bool is_cancelled = staged.step_input.error && end_.token().is_cancelled();
    if (!is_cancelled) staged.position = reader_.save();
    is_over = staged.step_input.is_last || is_cancelled;
    return staged;
  }

  const std::size_t depth_;
  const concurrency::LinkedToken end_;  // of this object, or asked for by the token it was given
  StepInputReader<B> reader_;               // the thread's, but for constant facts, while there is one
  std::optional<io::StateTree> position_;  // of the taker, once the thread was started
  std::unique_ptr<concurrency::StagingThread<Staged>> thread_;  // last: joined first
};

}  // namespace brigade::distribute
