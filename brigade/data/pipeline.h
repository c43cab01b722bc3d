#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/data/node.h"
#include "brigade/data/ordered_gate.h"
#include "brigade/data/outcome.h"
#include "brigade/data/position.h"

namespace brigade::data {

struct PipelineOptions {
  /// The transform, for saved states and for the names of threads.
  std::string name{};
  std::size_t workers = 1;
  /// Elements that may be under way or waiting for the consumer.
  std::size_t capacity = 1;
};

/// Runs ahead of its consumer on threads of its own: workers pull elements from the input in turns,
/// work on them at the same time, and the results leave in the input's order. What parallel `map`
/// and `prefetch` are made of.
///
/// The saved position is that of the consumer: every few elements the workers note the state of the
/// input, and a position is the last such note plus the number of elements received since. So it
/// does not depend on how far the workers have run ahead, and restoring re-reads a few elements.
///
/// Threads start with the first `next()` and are joined at the end of the data, on `restore` and on
/// destruction.
///
/// Thread-safety: as `IteratorBase`; `work` is called by several threads at once.
template <class In, class Out>
class PipelinedIterator final : public IteratorBase<Out> {
 public:
  /// Makes the result of the element at `place`, counted from the start of the epoch.
  using Work = std::function<Out(In&& element, std::uint64_t place)>;

  PipelinedIterator(std::unique_ptr<IteratorBase<In>> input, Work work, PipelineOptions options)
      : input_(std::move(input)),
        work_(std::move(work)),
        options_(std::move(options)),
        noted_(input_->save()) {}
  ~PipelinedIterator() override { stop(); }

  std::optional<Out> next() override {
    if (has_ended_) return std::nullopt;
    if (!pool_) start();
    if (!gate_->wait_for(head_)) {
      has_ended_ = true;
      stop();
      return std::nullopt;
    }
    Slot slot = std::exchange(slots_[head_ % slots_.size()], Slot());
    gate_->release(head_++);
    if (slot.input_before) {
      noted_ = std::move(*slot.input_before);
      noted_place_ += ahead_;
      ahead_ = 0;
    }
    ++ahead_;
    return std::move(slot.outcome).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t passed_before = ahead_;
    const std::uint64_t room = ~std::uint64_t{0} - ahead_;
    return go_to_note_and(ahead_ + (count < room ? count : room)) - passed_before;
  }
  io::StateTree save() const override {
    return make_position(options_.name, {{"place", noted_place_}, {"ahead", ahead_}}, noted_);
  }
  void restore(const io::StateTree& state) override {
    check_position(state, options_.name);
    noted_place_ = position_number(state, "place");
    noted_ = position_input(state);
    go_to_note_and(position_number(state, "ahead"));
  }

 private:
  struct Slot {
    Outcome<Out> outcome;
    std::optional<io::StateTree> input_before;
  };
  struct Pulled {
    std::uint64_t number;
    Outcome<In> outcome;
  };
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;

  void start() {
    gate_ = std::make_unique<OrderedGate>(options_.capacity);
    slots_ = std::vector<Slot>(options_.capacity);
    head_ = 0;
    first_place_ = noted_place_ + ahead_;
    pool_ = std::make_unique<concurrency::ThreadPool>(
        concurrency::ThreadPoolOptions{.threads = options_.workers, .name = options_.name});
    for (std::size_t i = 0; i < options_.workers; ++i) {
      pool_->submit([this] {
        while (auto pulled = pull()) finish(std::move(*pulled));
      });
    }
  }
  void stop() {
    if (gate_) gate_->stop();
    pool_ = nullptr;
    gate_ = nullptr;
    slots_.clear();
  }
  std::optional<Pulled> pull() {
    concurrency::MutexLock lock(pull_mutex_);  // numbers are given in the order of the elements
    const auto number = gate_->claim();
    if (!number) return std::nullopt;
    Pulled pulled{*number, {}};
    try {
      if (*number % kElementsPerNote == 0)
        slots_[*number % slots_.size()].input_before = input_->save();
      pulled.outcome.element = input_->next();
    } catch (...) {
      pulled.outcome.error = std::current_exception();
    }
    if (pulled.outcome.is_end()) {
      gate_->end(*number);
      return std::nullopt;
    }
    return pulled;
  }
  void finish(Pulled pulled) {
    Outcome<Out>& outcome = slots_[pulled.number % slots_.size()].outcome;
    try {
      if (pulled.outcome.error) {
        outcome.error = std::move(pulled.outcome.error);
      } else {
        outcome.element = work_(std::move(*pulled.outcome.element), first_place_ + pulled.number);
      }
    } catch (...) {
      outcome.error = std::current_exception();
    }
    gate_->publish(pulled.number);
  }
  /// Stops, goes back to the note and `count` elements on from it; returns how many there were.
  std::uint64_t go_to_note_and(std::uint64_t count) {
    stop();
    has_ended_ = false;
    input_->restore(noted_);
    const std::uint64_t passed = input_->skip(count);
    noted_ = input_->save();
    noted_place_ += passed;
    ahead_ = 0;
    return passed;
  }

  std::unique_ptr<IteratorBase<In>>
      input_;  // used by the workers, under pull_mutex_, while they run
  const Work work_;
  const PipelineOptions options_;
  io::StateTree noted_;            // the input's state at element noted_place_
  std::uint64_t noted_place_ = 0;  // counted from the start of the epoch
  std::uint64_t ahead_ = 0;        // elements received since the note
  std::uint64_t first_place_ = 0;  // of slot number 0
  std::uint64_t head_ = 0;         // the slot number that the consumer takes next
  bool has_ended_ = false;
  std::vector<Slot> slots_;  // ordered by gate_
  concurrency::Mutex pull_mutex_;
  std::unique_ptr<OrderedGate> gate_;
  std::unique_ptr<concurrency::ThreadPool> pool_;  // last: joined before anything it uses goes
};

}  // namespace brigade::data
