#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/consumer_position.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/index_set.h"
#include "brigade/data/core/iterator_base.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/reorder_buffer.h"
#include "brigade/data/runtime/chunk_sizer.h"
#include "brigade/data/runtime/stages.h"
#include "brigade/data/runtime/tuned_stage.h"
#include "brigade/data/runtime/worker_meter.h"
#include "brigade/data/runtime/workers.h"

namespace brigade::data {

/// Options of a `PipelinedIterator`.
struct PipelineOptions {
  /// The name of the transform, for saved states and thread names.
  std::string name{};
  std::size_t workers = 1;
  /// The most chunks of elements in progress or waiting for the consumer.
  std::size_t capacity = 1;
  /// The most elements that a worker takes at a time. Workers start with one, and take more while
  /// the work on an element costs little compared with passing it between threads.
  std::size_t max_chunk = 1;
  /// Whether results are returned in the input's order, or as they are ready.
  Order order = Order::kInOrder;
  /// Whether the input returns the same elements in the same order when it is read again from a
  /// saved position. If not, the workers save a snapshot of it at every element.
  Order input_order = Order::kInOrder;
  /// Ends all waits. Unset: cannot be cancelled.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where this step records its statistics, and from where it reads `workers` and `capacity`,
  /// which then may change while it runs; `max_slots` is the most that `capacity` can become. Null:
  /// not measured.
  std::shared_ptr<Stages> stages{};
  Stage* stage = nullptr;
  std::size_t max_slots = 0;
};

/// The size of a pipeline's ring of slots. In relaxed order it is larger than the capacity, so that
/// other elements can overtake a slow one.
std::size_t slots_for(const PipelineOptions& options);

/// The options of the step at `path` that works with `first` threads and capacity until it is tuned
/// within `limits`.
PipelineOptions pipeline_of_step(std::string name, const StageSettings& first,
                                 const StageLimits& limits, const IteratorOptions& job,
                                 Order input_order, const std::string& path);

/// Processes elements on worker threads, ahead of its consumer. The workers read elements from the
/// input one worker at a time and process them in parallel. Results are returned in the input's
/// order, or in relaxed order as they are ready. Parallel `map` and `prefetch` use it.
///
/// The saved position is that of the consumer, so it does not depend on how far the workers have
/// run ahead. Every few elements the workers save a snapshot of the input. A position is a snapshot
/// before all elements that are not delivered yet, and the indices delivered after it. Restoring
/// re-reads a few elements. In relaxed order the delivered indices are a bounded list of ranges.
///
/// Threads start with the first `next()` and are joined at the end of the data, on `restore` and on
/// destruction. A call that is cancelled consumes no element.
///
/// Thread-safety: as `IteratorBase`; `work` is called by several threads at the same time.
template <class In, class Out>
class PipelinedIterator final : public IteratorBase<Out> {
 public:
  /// Makes the result of an element; `index` is counted from the start of the epoch.
  using Work = std::function<Out(In&& element, std::uint64_t index)>;

  /// The destructor cancels `end`, so that it need not wait for threads that wait for data: the
  /// input and `work` must wait with this token, and `options.cancel` must be a copy of it. Null:
  /// the input does not wait.
  PipelinedIterator(std::unique_ptr<IteratorBase<In>> input, Work work, PipelineOptions options,
                    std::unique_ptr<const concurrency::LinkedToken> end = nullptr)
      : end_token_(std::move(end)),
        input_(std::move(input)),
        work_(std::move(work)),
        options_(std::move(options)),
        max_chunk_(options_.input_order == Order::kInOrder ? options_.max_chunk : 1),
        stage_(options_.stages, options_.stage, {options_.workers, options_.capacity}),
        position_(input_->save()) {}
  ~PipelinedIterator() override {
    if (end_token_) end_token_->cancel();
    stop();
  }

  std::optional<Out> next() override {
    if (num_taken_ == current_chunk_.results.size() && !take_chunk()) return std::nullopt;
    ElementResult<Out>& result = current_chunk_.results[num_taken_];
    if (result.error)
      internal::throw_if_cancelled(options_.cancel);  // the cancellation may be what made it fail
    ++num_taken_;
    return std::move(result).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // Waiting for a few elements in flight is faster than restarting the workers.
    if (workers_ && count <= kElementsPerSnapshot) {
      return IteratorBase<Out>::skip(count);
    }
    finish_chunk();
    return resume_from_snapshot(count);
  }
  bool keeps_position_when_cancelled() const override { return true; }
  io::StateTree save() const override {
    return position_.save(options_.name, current_chunk_.index, current_chunk_.index + num_taken_);
  }
  void restore(const io::StateTree& state) override {
    position_.load(options_.name, state);
    resume_from_snapshot(0);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The results that one worker made at a time, of consecutive elements.
  struct Chunk {
    std::uint64_t index = 0;  // of the first result
    std::vector<ElementResult<Out>> results{};
    std::optional<io::StateTree> snapshot{};  // the input's state at snapshot_index
    std::uint64_t snapshot_index = 0;
  };
  struct Pulled {
    std::uint64_t number;  // of the chunk
    std::uint64_t index;   // of its first element
    std::vector<ElementResult<In>> elements;
  };
  /// Small enough that a restore re-reads little, large enough that snapshots cost next to nothing.
  static constexpr std::uint64_t kElementsPerSnapshot = 16;

  void start() {
    const StageSettings settings = stage_.begin();
    reorder_buffer_ =
        std::make_unique<ReorderBuffer>(ReorderBufferOptions{.capacity = settings.capacity,
                                                             .slots = slots_for(options_),
                                                             .order = options_.order,
                                                             .cancel = options_.cancel,
                                                             .counters = stage_.counters()});
    chunks_ = std::vector<Chunk>(reorder_buffer_->slots());
    next_chunk_ = 0;
    pulled_index_ = position_.snapshot_index();
    next_snapshot_ = pulled_index_;
    delivered_before_ = position_.delivered();
    workers_ = std::make_unique<Workers>(
        options_.name, [this](const Workers& workers, std::size_t number) {
          try {
            run_worker(workers, number);
          } catch (...) {  // out of memory or a broken input; an element's error is in its result
            reorder_buffer_->fail(std::current_exception());
          }
        });
    workers_->set_count(settings.threads);
  }
  void stop() {
    if (reorder_buffer_) reorder_buffer_->stop();
    workers_ = nullptr;
    stage_.end();
    reorder_buffer_ = nullptr;
    chunks_.clear();
    position_.drop_pending();
    current_chunk_ = Chunk();
    num_taken_ = 0;
  }

  /// Marks the results taken from the current chunk as delivered, and drops the chunk.
  void finish_chunk() {
    position_.mark_delivered(current_chunk_.index, current_chunk_.index + num_taken_);
    current_chunk_.results.clear();
    current_chunk_.index += num_taken_;
    num_taken_ = 0;
  }
  /// Waits for the next chunk. Returns false at the end.
  bool take_chunk() {
    finish_chunk();
    if (has_ended_) return false;
    if (!workers_) start();
    if (const auto settings = stage_.changes()) {
      reorder_buffer_->set_capacity(settings->capacity);
      workers_->set_count(settings->threads);
    }
    const std::optional<std::uint64_t> number = wait_for_chunk();
    if (!number) {
      stop();
      has_ended_ = true;
      return false;
    }
    current_chunk_ = std::exchange(chunk_at(*number), Chunk());
    reorder_buffer_->release(*number);
    if (current_chunk_.snapshot)
      position_.add_snapshot(current_chunk_.snapshot_index, std::move(*current_chunk_.snapshot));
    stage_.count_chunk(current_chunk_.results);
    return true;
  }
  std::optional<std::uint64_t> wait_for_chunk() {
    if (options_.order == Order::kRelaxed) return reorder_buffer_->wait_for_any();
    return reorder_buffer_->wait_for(next_chunk_) ? std::optional(next_chunk_++) : std::nullopt;
  }

  void run_worker(const Workers& workers, std::size_t number) {
    WorkerMeter meter(stage_.counters());
    ChunkSizer sizer(max_chunk_);
    while (workers.should_run(number)) {
      auto pulled = pull(sizer, meter);
      if (!pulled) return;
      Chunk& chunk = chunk_at(pulled->number);
      chunk.index = pulled->index;
      chunk.results.reserve(pulled->elements.size());
      for (ElementResult<In>& element : pulled->elements) {
        chunk.results.push_back(result_of(std::move(element), pulled->index++));
      }
      // Before `publish`, which may wait for a lock: that is no cost of the elements.
      sizer.finish(Clock::now());
      reorder_buffer_->publish(pulled->number);
      meter.end_chunk(Clock::now());
    }
  }
  std::optional<Pulled> pull(ChunkSizer& sizer, WorkerMeter& meter) {
    concurrency::MutexLock lock(pull_mutex_);  // chunk numbers follow the order of the elements
    const auto number = reorder_buffer_->claim();
    if (!number) return std::nullopt;
    Pulled pulled{*number, skip_delivered(), {}};
    const Clock::time_point now = Clock::now();
    sizer.start(now);
    meter.begin_chunk(now);
    const bool is_repeatable = options_.input_order == Order::kInOrder;
    if (is_repeatable && pulled_index_ >= next_snapshot_) {
      snapshot_input(*number);
      next_snapshot_ = pulled_index_ + kElementsPerSnapshot;
    }
    const std::uint64_t room = delivered_before_.next_begin(pulled_index_) - pulled_index_;
    while (pulled.elements.size() < sizer.size() && pulled.elements.size() < room) {
      ElementResult<In> element = result_of_next(*input_);
      if (element.is_end()) break;
      pulled.elements.push_back(std::move(element));
    }
    meter.end_pull();
    pulled_index_ += pulled.elements.size();
    if (!is_repeatable) snapshot_input(*number);  // after the element: never read it again
    if (!pulled.elements.empty()) return pulled;
    reorder_buffer_->end(*number);
    return std::nullopt;
  }
  void snapshot_input(std::uint64_t number) {
    chunk_at(number).snapshot = input_->save();
    chunk_at(number).snapshot_index = pulled_index_;
  }
  /// Skips the elements that were delivered before the workers started. Returns the index of the
  /// input's next element.
  std::uint64_t skip_delivered() {
    const std::uint64_t end = delivered_before_.end_of_run(pulled_index_);
    if (end != pulled_index_) {
      pulled_index_ += internal::cancellable_skip(*input_, end - pulled_index_, options_.cancel);
    }
    return pulled_index_;
  }
  ElementResult<Out> result_of(ElementResult<In> element, std::uint64_t index) const {
    if (element.error) return {std::nullopt, std::move(element.error)};
    try {
      return {work_(std::move(*element.element), index), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  /// Stops the workers, restores the snapshot, and skips the next `count` elements that are not
  /// delivered. Returns how many there were.
  std::uint64_t resume_from_snapshot(std::uint64_t count) {
    stop();
    has_ended_ = false;
    input_->restore(position_.snapshot());
    const std::uint64_t passed = position_.skip_undelivered(count, [this](std::uint64_t distance) {
      return internal::cancellable_skip(*input_, distance, options_.cancel);
    });
    position_.set_snapshot(input_->save());
    return passed;
  }
  Chunk& chunk_at(std::uint64_t number) { return chunks_[number % chunks_.size()]; }

  const std::unique_ptr<const concurrency::LinkedToken> end_token_;
  const std::unique_ptr<IteratorBase<In>>
      input_;  // used by the workers, under pull_mutex_, while they run
  const Work work_;
  const PipelineOptions options_;
  const std::size_t max_chunk_;
  TunedStage stage_;
  ConsumerPosition position_;  // without the elements of current_chunk_
  Chunk current_chunk_;
  std::size_t num_taken_ = 0;     // of current_chunk_
  std::uint64_t next_chunk_ = 0;  // the number of the chunk after current_chunk_, if in order
  bool has_ended_ = false;
  std::vector<Chunk> chunks_;  // a ring; reorder_buffer_ controls access to each
  IndexSet delivered_before_;  // delivered before the workers started
  concurrency::Mutex pull_mutex_;
  std::uint64_t pulled_index_ = 0;  // under pull_mutex_ while workers run, like next_snapshot_
  std::uint64_t next_snapshot_ = 0;
  std::unique_ptr<ReorderBuffer> reorder_buffer_;
  std::unique_ptr<Workers> workers_;  // last: joined before what they use is destroyed
};

}  // namespace brigade::data
