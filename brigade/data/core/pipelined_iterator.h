#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/concurrency/linked_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/runtime/chunk_sizer.h"
#include "brigade/data/core/iterator_base.h"
#include "brigade/data/core/consumer_position.h"
#include "brigade/data/core/reorder_buffer.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/pipeline_options.h"
#include "brigade/data/core/index_set.h"
#include "brigade/data/runtime/tuned_stage.h"
#include "brigade/data/runtime/worker_meter.h"
#include "brigade/data/runtime/workers.h"

namespace brigade::data {

/// Runs ahead of its consumer on threads of its own: workers pull elements from the input in turns,
/// work on them at the same time, and the results leave in the input's order, or as they are ready.
/// What parallel `map` and `prefetch` are made of.
///
/// The saved position is that of the consumer: every few elements the workers note the state of the
/// input, and a position is a note before all that is not delivered yet, and which places behind it
/// were delivered. So it does not depend on how far the workers have run ahead, and restoring
/// re-reads a few elements. In relaxed order those places have gaps: a bounded list of ranges.
///
/// Threads start with the first `next()` and are joined at the end of the data, on `restore` and on
/// destruction. A call that ends because the token was cancelled passes no element.
///
/// Thread-safety: as `IteratorBase`; `work` is called by several threads at once.
template <class In, class Out>
class PipelinedIterator final : public IteratorBase<Out> {
 public:
  /// Makes the result of the element at `place`, counted from the start of the epoch.
  using Work = std::function<Out(In&& element, std::uint64_t place)>;

  /// `end` is cancelled on destruction: a token that the input and the work wait with, and that
  /// `options.cancel` is a copy of, so that threads that wait for data do not keep their owner
  /// waiting. Null: the input does not wait.
  PipelinedIterator(std::unique_ptr<IteratorBase<In>> input, Work work, PipelineOptions options,
                    std::unique_ptr<const concurrency::LinkedToken> end = nullptr)
      : end_(std::move(end)),
        input_(std::move(input)),
        work_(std::move(work)),
        options_(std::move(options)),
        max_chunk_(options_.input_order == Order::kInOrder ? options_.max_chunk : 1),
        stage_(options_.stages, options_.stage, {options_.workers, options_.capacity}),
        places_(input_->save()) {}
  ~PipelinedIterator() override {
    if (end_) end_->cancel();
    stop();
  }

  std::optional<Out> next() override {
    if (taken_ == current_.results.size() && !take_chunk()) return std::nullopt;
    ElementResult<Out>& result = current_.results[taken_];
    if (result.error) throw_if_cancelled();  // it may have failed for that alone
    ++taken_;
    return std::move(result).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // A few elements that are under way go by faster than the workers start anew.
    if (workers_ && count <= kElementsPerSnapshot) {
      return IteratorBase<Out>::skip(count);
    }
    finish_chunk();
    return resume_from_snapshot(count);
  }
  bool keeps_position_when_cancelled() const override { return true; }
  io::StateTree save() const override {
    return places_.save(options_.name, current_.place, current_.place + taken_);
  }
  void restore(const io::StateTree& state) override {
    places_.load(options_.name, state);
    resume_from_snapshot(0);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What one worker made at one go, on its way to the consumer: results of successive places.
  struct Chunk {
    std::uint64_t place = 0;  // of the first result
    std::vector<ElementResult<Out>> results{};
    std::optional<io::StateTree> note{};  // the input's state at snapshot_index
    std::uint64_t snapshot_index = 0;
  };
  struct Pulled {
    std::uint64_t number;  // of the chunk
    std::uint64_t place;   // of its first element
    std::vector<ElementResult<In>> elements;
  };
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerSnapshot = 16;

  void throw_if_cancelled() const {
    if (options_.cancel && options_.cancel->is_cancelled()) {
      std::rethrow_exception(cancelled_error());
    }
  }

  void start() {
    const StageSettings settings = stage_.begin();
    gate_ = std::make_unique<ReorderBuffer>(ReorderBufferOptions{.capacity = settings.capacity,
                                                             .slots = slots_for(options_),
                                                             .order = options_.order,
                                                             .cancel = options_.cancel,
                                                             .counters = stage_.counters()});
    chunks_ = std::vector<Chunk>(gate_->slots());
    head_ = 0;
    pulled_place_ = places_.snapshot_index();
    next_snapshot_ = pulled_place_;
    passed_before_ = places_.delivered();
    workers_ = std::make_unique<Workers>(options_.name, [this](const Workers& workers,
                                                               std::size_t number) {
      try {
        run_worker(workers, number);
      } catch (...) {  // not an element's error, those travel with it: no memory, a broken input
        gate_->fail(std::current_exception());
      }
    });
    workers_->set_count(settings.threads);
  }
  void stop() {
    if (gate_) gate_->stop();
    workers_ = nullptr;
    stage_.end();
    gate_ = nullptr;
    chunks_.clear();
    places_.drop_pending();
    current_ = Chunk();
    taken_ = 0;
  }

  /// The consumer: all of the chunk in hand is delivered.
  void finish_chunk() {
    places_.mark_delivered(current_.place, current_.place + taken_);
    current_.results.clear();
    current_.place += taken_;
    taken_ = 0;
  }
  /// The consumer: waits for the next chunk; false at the end.
  bool take_chunk() {
    finish_chunk();
    if (has_ended_) return false;
    if (!workers_) start();
    if (const auto settings = stage_.changes()) {
      gate_->set_capacity(settings->capacity);
      workers_->set_count(settings->threads);
    }
    const std::optional<std::uint64_t> number = wait_for_chunk();
    if (!number) {
      stop();
      has_ended_ = true;
      return false;
    }
    current_ = std::exchange(chunk_at(*number), Chunk());
    gate_->release(*number);
    if (current_.note) places_.add_snapshot(current_.snapshot_index, std::move(*current_.note));
    stage_.count_chunk(current_.results);
    return true;
  }
  std::optional<std::uint64_t> wait_for_chunk() {
    if (options_.order == Order::kRelaxed) return gate_->wait_for_any();
    return gate_->wait_for(head_) ? std::optional(head_++) : std::nullopt;
  }

  void run_worker(const Workers& workers, std::size_t number) {
    WorkerMeter meter(stage_.counters());
    ChunkSizer sizer(max_chunk_);
    while (workers.should_run(number)) {
      auto pulled = pull(sizer, meter);
      if (!pulled) return;
      Chunk& chunk = chunk_at(pulled->number);
      chunk.place = pulled->place;
      chunk.results.reserve(pulled->elements.size());
      for (ElementResult<In>& element : pulled->elements) {
        chunk.results.push_back(result_of(std::move(element), pulled->place++));
      }
      // Before publishing, which may wait for the gate's lock: that is no cost of the elements.
      sizer.finish(Clock::now());
      gate_->publish(pulled->number);
      meter.end_chunk(Clock::now());
    }
  }
  std::optional<Pulled> pull(ChunkSizer& sizer, WorkerMeter& meter) {
    concurrency::MutexLock lock(pull_mutex_);  // numbers are given in the order of the elements
    const auto number = gate_->claim();
    if (!number) return std::nullopt;
    Pulled pulled{*number, pass_delivered(), {}};
    const Clock::time_point now = Clock::now();
    sizer.start(now);
    meter.begin_chunk(now);
    const bool is_repeatable = options_.input_order == Order::kInOrder;
    if (is_repeatable && pulled_place_ >= next_snapshot_) {
      snapshot_input(*number);
      next_snapshot_ = pulled_place_ + kElementsPerSnapshot;
    }
    const std::uint64_t room = passed_before_.next_begin(pulled_place_) - pulled_place_;
    while (pulled.elements.size() < sizer.size() && pulled.elements.size() < room) {
      ElementResult<In> element = result_of_next(*input_);
      if (element.is_end()) break;
      pulled.elements.push_back(std::move(element));
    }
    meter.end_pull();
    pulled_place_ += pulled.elements.size();
    if (!is_repeatable) snapshot_input(*number);  // behind the element: never read it again
    if (!pulled.elements.empty()) return pulled;
    gate_->end(*number);
    return std::nullopt;
  }
  void snapshot_input(std::uint64_t number) {
    chunk_at(number).note = input_->save();
    chunk_at(number).snapshot_index = pulled_place_;
  }
  /// Passes what was delivered before this start; returns where the input stands then.
  std::uint64_t pass_delivered() {
    const std::uint64_t end = passed_before_.end_of_run(pulled_place_);
    if (end != pulled_place_) {
      pulled_place_ += internal::cancellable_skip(*input_, end - pulled_place_, options_.cancel);
    }
    return pulled_place_;
  }
  ElementResult<Out> result_of(ElementResult<In> element, std::uint64_t place) const {
    if (element.error) return {std::nullopt, std::move(element.error)};
    try {
      return {work_(std::move(*element.element), place), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  /// Stops, goes back to the note, and on from it to behind the next `count` elements that are not
  /// delivered; returns how many there were.
  std::uint64_t resume_from_snapshot(std::uint64_t count) {
    stop();
    has_ended_ = false;
    input_->restore(places_.snapshot());
    const std::uint64_t passed = places_.skip_undelivered(count, [this](std::uint64_t distance) {
      return internal::cancellable_skip(*input_, distance, options_.cancel);
    });
    places_.set_snapshot(input_->save());
    return passed;
  }
  Chunk& chunk_at(std::uint64_t number) { return chunks_[number % chunks_.size()]; }

  const std::unique_ptr<const concurrency::LinkedToken> end_;
  const std::unique_ptr<IteratorBase<In>>
      input_;  // the workers', under pull_mutex_, while they run
  const Work work_;
  const PipelineOptions options_;
  const std::size_t max_chunk_;
  TunedStage stage_;
  ConsumerPosition places_;  // without those of current_
  Chunk current_;
  std::size_t taken_ = 0;   // of current_
  std::uint64_t head_ = 0;  // the number of the chunk that comes after current_, if in order
  bool has_ended_ = false;
  std::vector<Chunk> chunks_;  // a ring; gate_ says whose turn it is at each
  IndexSet passed_before_;     // delivered before the workers started
  concurrency::Mutex pull_mutex_;
  std::uint64_t pulled_place_ = 0;  // under pull_mutex_ while workers run, like next_snapshot_
  std::uint64_t next_snapshot_ = 0;
  std::unique_ptr<ReorderBuffer> gate_;
  std::unique_ptr<Workers> workers_;  // last: joined before anything it uses goes
};

}  // namespace brigade::data
