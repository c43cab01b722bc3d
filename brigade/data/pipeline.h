#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/byte_size.h"
#include "brigade/data/iterator_base.h"
#include "brigade/data/ordered_gate.h"
#include "brigade/data/outcome.h"
#include "brigade/data/places.h"
#include "brigade/data/position.h"
#include "brigade/data/stages.h"
#include "brigade/data/worker_meter.h"
#include "brigade/data/workers.h"

namespace brigade::data {

struct PipelineOptions {
  /// The transform, for saved states and for the names of threads.
  std::string name{};
  std::size_t workers = 1;
  /// Chunks of elements that may be under way or waiting for the consumer.
  std::size_t capacity = 1;
  /// The most elements that a worker takes at once. Workers start with one and take more while the
  /// work on them costs little beside handing them over between threads.
  std::size_t max_chunk = 1;
  /// Whether results leave in the input's order, or as they are ready.
  Order order = Order::kInOrder;
  /// Whether the input gives the same elements in the same order when it is read again from a saved
  /// position. If it does not, its position is noted at every element.
  Order input_order = Order::kInOrder;
  /// Ends all waits. Unset: nobody cancels.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where this step counts and from where it takes `workers` and `capacity`, which then may change
  /// while it runs; `most_slots` is the most that the capacity comes to. Null: nowhere.
  std::shared_ptr<Stages> stages{};
  Stage* stage = nullptr;
  std::size_t most_slots = 0;
};

/// How many elements a worker takes next, if the last `size` of them took `elapsed`.
std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk);

/// Slots in the ring of a pipeline: more than may be in use where the order is relaxed, so that a
/// slow element lets others pass.
std::size_t slots_for(const PipelineOptions& options);

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

  PipelinedIterator(std::unique_ptr<IteratorBase<In>> input, Work work, PipelineOptions options)
      : input_(std::move(input)),
        work_(std::move(work)),
        options_(std::move(options)),
        max_chunk_(options_.input_order == Order::kInOrder ? options_.max_chunk : 1),
        noted_(input_->save()) {}
  ~PipelinedIterator() override { stop(); }

  std::optional<Out> next() override {
    if (taken_ == current_.results.size() && !take_chunk()) return std::nullopt;
    Outcome<Out>& outcome = current_.results[taken_];
    if (outcome.error) throw_if_cancelled();  // it may have failed for that alone
    ++taken_;
    return std::move(outcome).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // A few elements that are under way go by faster than the workers start anew.
    if (workers_ && count <= kElementsPerNote) {
      return IteratorBase<Out>::skip(count);
    }
    finish_chunk();
    return go_on_from_note(count);
  }
  bool keeps_place_when_cancelled() const override { return true; }
  io::StateTree save() const override {
    PlaceSet delivered = delivered_;
    delivered.add(current_.place, current_.place + taken_);
    const std::uint64_t end = delivered.end_of_run(noted_place_);
    delivered.drop_below(end);
    const auto later = pending_notes_.upper_bound(end);
    const bool is_newest = later == pending_notes_.begin();
    const std::uint64_t place = is_newest ? noted_place_ : std::prev(later)->first;
    io::StateTree state = make_position(options_.name, {{"place", place}, {"ahead", end - place}},
                                        is_newest ? noted_ : std::prev(later)->second);
    save_places(state, delivered);
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, options_.name);
    PlaceSet delivered = load_places(state);
    stop();
    noted_place_ = position_number(state, "place");
    noted_ = position_input(state);
    delivered_ = PlaceSet();
    delivered_.add(noted_place_, noted_place_ + position_number(state, "ahead"));
    for (const PlaceSet::Range& range : delivered.ranges()) delivered_.add(range.begin, range.end);
    go_on_from_note(0);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What one worker made at one go, on its way to the consumer: results of successive places.
  struct Chunk {
    std::uint64_t place = 0;  // of the first result
    std::vector<Outcome<Out>> results{};
    std::optional<io::StateTree> note{};  // the input's state at note_place
    std::uint64_t note_place = 0;
  };
  struct Pulled {
    std::uint64_t number;  // of the chunk
    std::uint64_t place;   // of its first element
    Clock::time_point started;
    std::vector<Outcome<In>> elements;
  };
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;
  static constexpr std::uint64_t kTakesPerLook = 8;

  StageCounters* counters() const {
    return options_.stage == nullptr ? nullptr : &options_.stage->counters;
  }
  void throw_if_cancelled() const {
    if (options_.cancel && options_.cancel->is_cancelled()) {
      std::rethrow_exception(cancelled_walk());
    }
  }

  void start() {
    const StageSettings settings = options_.stage == nullptr
                                       ? StageSettings{options_.workers, options_.capacity}
                                       : options_.stage->settings();
    adopted_ = options_.stage == nullptr ? 0 : options_.stage->version();
    gate_ = std::make_unique<OrderedGate>(OrderedGateOptions{.capacity = settings.capacity,
                                                             .slots = slots_for(options_),
                                                             .order = options_.order,
                                                             .cancel = options_.cancel,
                                                             .counters = counters()});
    chunks_ = std::vector<Chunk>(gate_->slots());
    head_ = 0;
    pulled_place_ = noted_place_;
    next_note_ = pulled_place_;
    passed_before_ = delivered_;
    if (options_.stage != nullptr) options_.stage->begin();
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
    if (workers_ && options_.stage != nullptr) options_.stage->end();
    workers_ = nullptr;
    gate_ = nullptr;
    chunks_.clear();
    pending_notes_.clear();
    current_ = Chunk();
    taken_ = 0;
  }

  /// The consumer: all of the chunk in hand is delivered.
  void finish_chunk() {
    delivered_.add(current_.place, current_.place + taken_);
    current_.results.clear();
    current_.place += taken_;
    taken_ = 0;
    go_to_last_note();
  }
  /// The consumer: waits for the next chunk; false at the end.
  bool take_chunk() {
    finish_chunk();
    if (has_ended_) return false;
    if (!workers_) start();
    if (options_.stage != nullptr) adopt_settings();
    const std::optional<std::uint64_t> number = wait_for_chunk();
    if (!number) {
      stop();
      has_ended_ = true;
      return false;
    }
    current_ = std::exchange(chunk_at(*number), Chunk());
    gate_->release(*number);
    if (current_.note) {
      pending_notes_.emplace(current_.note_place, std::move(*current_.note));
      go_to_last_note();
    }
    if (options_.stage != nullptr) count_chunk();
    return true;
  }
  std::optional<std::uint64_t> wait_for_chunk() {
    if (options_.order == Order::kRelaxed) return gate_->wait_for_any();
    return gate_->wait_for(head_) ? std::optional(head_++) : std::nullopt;
  }
  /// The last note before which all is delivered is the one to go back to.
  void go_to_last_note() {
    const std::uint64_t end = delivered_.end_of_run(noted_place_);
    while (!pending_notes_.empty() && pending_notes_.begin()->first <= end) {
      noted_place_ = pending_notes_.begin()->first;
      noted_ = std::move(pending_notes_.begin()->second);
      pending_notes_.erase(pending_notes_.begin());
    }
    delivered_.drop_below(noted_place_);
  }

  void adopt_settings() {
    if (options_.stage->version() == adopted_) return;
    adopted_ = options_.stage->version();
    const StageSettings settings = options_.stage->settings();
    gate_->set_capacity(settings.capacity);
    workers_->set_count(settings.threads);
  }
  void count_chunk() {
    StageCounters& counts = *counters();
    // Where every step is counted, its elements are counted one by one.
    if (!options_.stages->counts_all()) counts.elements.add(current_.results.size());
    const std::uint64_t waited = counts.consumer_waits.value();
    if (waited == waited_ && ++takes_since_look_ < kTakesPerLook) return;
    waited_ = waited;
    takes_since_look_ = 0;
    std::uint64_t bytes = 0;
    for (const Outcome<Out>& each : current_.results) {
      if (each.element) bytes += ByteSize<Out>::of(*each.element);
    }
    counts.bytes.add(bytes);
    counts.sized_chunks.add(1);
    options_.stages->tick(Clock::now());
  }

  void run_worker(const Workers& workers, std::size_t number) {
    WorkerMeter meter(counters());
    std::size_t size = 1;
    while (workers.wants(number)) {
      auto pulled = pull(size, meter);
      if (!pulled) return;
      Chunk& chunk = chunk_at(pulled->number);
      chunk.place = pulled->place;
      chunk.results.reserve(pulled->elements.size());
      for (Outcome<In>& element : pulled->elements) {
        chunk.results.push_back(result_of(std::move(element), pulled->place++));
      }
      gate_->publish(pulled->number);
      const Clock::time_point now = Clock::now();
      meter.end_chunk(now);
      size = next_chunk_size(size, now - pulled->started, max_chunk_);
    }
  }
  std::optional<Pulled> pull(std::size_t size, WorkerMeter& meter) {
    concurrency::MutexLock lock(pull_mutex_);  // numbers are given in the order of the elements
    const auto number = gate_->claim();
    if (!number) return std::nullopt;
    Pulled pulled{*number, pass_delivered(), Clock::now(), {}};
    meter.begin_chunk(pulled.started);
    const bool is_repeatable = options_.input_order == Order::kInOrder;
    if (is_repeatable && pulled_place_ >= next_note_) {
      note_input(*number);
      next_note_ = pulled_place_ + kElementsPerNote;
    }
    const std::uint64_t room = passed_before_.next_begin(pulled_place_) - pulled_place_;
    while (pulled.elements.size() < size && pulled.elements.size() < room) {
      Outcome<In> element = outcome_of_next(*input_);
      if (element.is_end()) break;
      pulled.elements.push_back(std::move(element));
    }
    meter.end_pull();
    pulled_place_ += pulled.elements.size();
    if (!is_repeatable) note_input(*number);  // behind the element: never read it again
    if (!pulled.elements.empty()) return pulled;
    gate_->end(*number);
    return std::nullopt;
  }
  void note_input(std::uint64_t number) {
    chunk_at(number).note = input_->save();
    chunk_at(number).note_place = pulled_place_;
  }
  /// Passes what was delivered before this start; returns where the input stands then.
  std::uint64_t pass_delivered() {
    const std::uint64_t end = passed_before_.end_of_run(pulled_place_);
    if (end != pulled_place_) pulled_place_ += input_->skip(end - pulled_place_);
    return pulled_place_;
  }
  Outcome<Out> result_of(Outcome<In> element, std::uint64_t place) const {
    if (element.error) return {std::nullopt, std::move(element.error)};
    try {
      return {work_(std::move(*element.element), place), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  /// Stops, goes back to the note, and on from it to behind the next `count` elements that are not
  /// delivered; returns how many there were.
  std::uint64_t go_on_from_note(std::uint64_t count) {
    stop();
    has_ended_ = false;
    input_->restore(noted_);
    std::uint64_t passed = 0;
    for (;;) {
      const std::uint64_t end = delivered_.end_of_run(noted_place_);
      const bool is_delivered = end != noted_place_;
      const std::uint64_t gap = delivered_.next_begin(noted_place_) - noted_place_;
      const std::uint64_t distance =
          is_delivered ? end - noted_place_ : std::min(gap, count - passed);
      if (distance == 0) break;
      const std::uint64_t done = input_->skip(distance);
      noted_place_ += done;
      if (!is_delivered) passed += done;
      if (done < distance) break;
    }
    noted_ = input_->save();
    delivered_.drop_below(noted_place_);
    return passed;
  }
  Chunk& chunk_at(std::uint64_t number) { return chunks_[number % chunks_.size()]; }

  const std::unique_ptr<IteratorBase<In>>
      input_;  // the workers', under pull_mutex_, while they run
  const Work work_;
  const PipelineOptions options_;
  const std::size_t max_chunk_;
  io::StateTree noted_;            // the input's state at element noted_place_
  std::uint64_t noted_place_ = 0;  // counted from the start of the epoch
  PlaceSet delivered_;             // from noted_place_ on, without those of current_
  std::map<std::uint64_t, io::StateTree> pending_notes_;  // by place, which is not reached yet
  Chunk current_;
  std::size_t taken_ = 0;   // of current_
  std::uint64_t head_ = 0;  // the number of the chunk that comes after current_, if in order
  bool has_ended_ = false;
  std::uint64_t adopted_ = 0;  // the version of the stage's settings
  std::uint64_t waited_ = 0;   // by the consumer, as of its last look
  std::uint64_t takes_since_look_ = 0;
  std::vector<Chunk> chunks_;  // a ring; gate_ says whose turn it is at each
  PlaceSet passed_before_;     // delivered before the workers started
  concurrency::Mutex pull_mutex_;
  std::uint64_t pulled_place_ = 0;  // under pull_mutex_ while workers run, like next_note_
  std::uint64_t next_note_ = 0;
  std::unique_ptr<OrderedGate> gate_;
  std::unique_ptr<Workers> workers_;  // last: joined before anything it uses goes
};

}  // namespace brigade::data
