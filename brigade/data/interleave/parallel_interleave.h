#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/interleave/interleave_iterator.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/interleave_schedule.h"
#include "brigade/data/interleave/prefetch_queue.h"
#include "brigade/data/runtime/tuned_stage.h"
#include "brigade/data/runtime/worker_meter.h"
#include "brigade/data/runtime/workers.h"

namespace brigade::data::internal {

/// Settings of an interleave with several threads.
struct InterleaveThreads {
  Order order = Order::kInOrder;
  /// Threads, and the maximum number of chunks being read or ready.
  StageSettings settings{};
  /// Where the step records its counters and reads the number of threads, which may then change
  /// while it runs. Null: nowhere.
  std::shared_ptr<Stages> stages{};
  Stage* stage = nullptr;
};

/// Interleaves as `InterleaveIterator` does, with threads that create the inner datasets and
/// prefetch a bounded number of elements from each: from those in the cycle and from a few that
/// follow. In order, it gives the same elements in the same order; relaxed, it returns what is
/// ready instead of waiting.
///
/// The saved position is that of the consumer, in the format of `InterleaveIterator`: for each open
/// dataset a snapshot and the number of elements delivered since, and for the input the position
/// after the last dataset that entered the cycle. So no element is lost or repeated, however far
/// the threads have read.
///
/// Threads start with the first `next()` and are joined at the end, on `restore` and on
/// destruction.
///
/// Thread-safety: as `IteratorBase`; the maker's function is called by several threads
/// concurrently.
template <class T, class U>
class ParallelInterleaveIterator final : public IteratorBase<U> {
 public:
  /// `end`, whose token the input and the inner datasets use for waits, is cancelled on
  /// destruction.
  ParallelInterleaveIterator(ReplayableInput<T> input, InnerMaker<T, U> maker,
                             InterleaveShape shape, const InterleaveThreads& threads,
                             std::unique_ptr<const concurrency::LinkedToken> end = nullptr)
      : end_(std::move(end)),
        input_(std::move(input)),
        maker_(std::move(maker)),
        shape_(std::move(shape)),
        order_(threads.order),
        stage_(threads.stages, threads.stage, threads.settings),
        schedule_({.order = order_,
                   .cancel = maker_.options.cancel,
                   .where = maker_.where,
                   .counters = stage_.counters()},
                  InterleaveCycle<T, U>(shape_, input_.position())) {}
  ~ParallelInterleaveIterator() override {
    if (end_) end_->cancel();
    stop();
  }

  std::optional<U> next() override {
    if (has_ended_) return std::nullopt;
    InterleaveCycle<T, U>& cycle = schedule_.cycle();
    if (!cycle.has_result() && !select()) {
      stop();
      has_ended_ = true;
      return std::nullopt;
    }
    const bool is_failed = cycle.current_queue()->is_failed;
    ElementResult<U> result = cycle.take();
    if (is_failed) schedule_.close_failed();
    return std::move(result).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // For short skips, consuming prefetched elements is faster than reopening the datasets.
    if (count < kLongSkip || order_ == Order::kRelaxed) return IteratorBase<U>::skip(count);
    const io::StateTree state = save();
    stop();
    InterleaveIterator<T, U> sequential(std::move(input_), maker_, shape_);
    sequential.restore(state);
    const std::uint64_t passed = sequential.skip(count);
    const io::StateTree reached = sequential.save();
    input_ = std::move(sequential).release_input();
    restore(reached);
    return passed;
  }
  io::StateTree save() const override {
    return save_interleave(shape_, schedule_.cycle().position());
  }
  void restore(const io::StateTree& state) override {
    const InterleavePosition position = load_interleave(shape_, state);
    stop();
    std::vector<InnerIterator<U>> iterators = reopen_all(input_, maker_, position);
    for (std::size_t slot = 0; slot < iterators.size(); ++slot) {
      if (iterators[slot].is_open()) schedule_.cycle().put(slot, std::move(iterators[slot]));
    }
    schedule_.cycle().seek(position);
    has_ended_ = false;
  }
  bool keeps_position_when_cancelled() const override { return true; }

 private:
  static constexpr std::uint64_t kLongSkip = 1024;

  /// Advances to the next result, for the consumer; false at the end.
  bool select() {
    if (!workers_) start();
    if (const auto settings = stage_.changes()) {
      schedule_.set_threads(settings->threads);
      workers_->set_count(settings->threads);
    }
    if (!schedule_.select()) return false;
    const auto& queue = *schedule_.cycle().current_queue();
    if (queue.taken == 0) stage_.count_chunk(queue.current);  // it is new
    return true;
  }

  void start() {
    const StageSettings settings = stage_.begin();
    schedule_.start(settings.threads);
    workers_ = std::make_unique<Workers>(shape_.name, [this](const Workers&, std::size_t number) {
      try {
        run_worker(number);
      } catch (...) {  // not an element's error, which is stored in its result
        schedule_.fail(std::current_exception());
      }
    });
    workers_->set_count(settings.threads);
  }
  /// Joins the threads and drops the prefetched elements.
  void stop() {
    schedule_.stop();
    workers_ = nullptr;
    stage_.end();
    schedule_.cycle().clear();
  }

  void run_worker(std::size_t number) {
    using Clock = WorkerMeter::Clock;
    WorkerMeter meter(stage_.counters());
    const InterleaveReader<T, U> reader(maker_);
    while (const auto task = schedule_.claim(number)) {
      meter.begin_chunk(Clock::now());
      if (task->queue != nullptr) {
        schedule_.publish(*task->queue, reader.read(*task->queue));
      } else {
        auto element = input_.next();
        meter.end_pull();
        schedule_.add(std::move(element));
      }
      meter.end_chunk(Clock::now());
    }
  }

  const std::unique_ptr<const concurrency::LinkedToken> end_;
  ReplayableInput<T> input_;  // used by one worker at a time while they run
  const InnerMaker<T, U> maker_;
  const InterleaveShape shape_;
  const Order order_;
  bool has_ended_ = false;
  TunedStage stage_;
  InterleaveSchedule<T, U> schedule_;
  std::unique_ptr<Workers> workers_;  // last: joined before anything they use is destroyed
};

}  // namespace brigade::data::internal
