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
  /// Chunks of elements that may be under way or waiting for the consumer.
  std::size_t capacity = 1;
  /// The most elements that a worker takes at once. Workers start with one and take more while the
  /// work on them costs little beside handing them over between threads.
  std::size_t max_chunk = 1;
};

/// How many elements a worker takes next, if the last `size` of them took `elapsed`.
std::size_t next_chunk_size(std::size_t size, std::chrono::nanoseconds elapsed,
                            std::size_t max_chunk);

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
    if (taken_ == current_.size() && !take_chunk()) return std::nullopt;
    ++ahead_;
    return std::move(current_[taken_++]).take();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // A few elements that are under way go by faster than the workers start anew.
    if (pool_ && count <= kElementsPerNote) return IteratorBase<Out>::skip(count);
    const std::uint64_t passed_before = ahead_;
    const std::uint64_t room = ~std::uint64_t{0} - ahead_;
    return go_on_from_note(ahead_ + (count < room ? count : room)) - passed_before;
  }
  io::StateTree save() const override {
    return make_position(options_.name, {{"place", noted_place_}, {"ahead", ahead_}}, noted_);
  }
  void restore(const io::StateTree& state) override {
    check_position(state, options_.name);
    noted_place_ = position_number(state, "place");
    noted_ = position_input(state);
    go_on_from_note(position_number(state, "ahead"));
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What one worker made at one go, on its way to the consumer.
  struct Chunk {
    std::vector<Outcome<Out>> results;
    std::optional<io::StateTree> note;  // the input's state before the first element
  };
  struct Pulled {
    std::uint64_t number;  // of the chunk
    std::uint64_t place;   // of its first element
    Clock::time_point started;
    std::vector<Outcome<In>> elements;
  };
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;

  void start() {
    gate_ = std::make_unique<OrderedGate>(options_.capacity);
    chunks_ = std::vector<Chunk>(options_.capacity);
    head_ = 0;
    pulled_place_ = noted_place_ + ahead_;
    next_note_ = pulled_place_;
    pool_ = std::make_unique<concurrency::ThreadPool>(
        concurrency::ThreadPoolOptions{.threads = options_.workers, .name = options_.name});
    for (std::size_t i = 0; i < options_.workers; ++i) {
      pool_->submit([this] {
        try {
          run_worker();
        } catch (...) {  // not an element's error, those travel with it: no memory, a broken input
          gate_->fail(std::current_exception());
        }
      });
    }
  }
  void stop() {
    if (gate_) gate_->stop();
    pool_ = nullptr;
    gate_ = nullptr;
    chunks_.clear();
    current_.clear();
    taken_ = 0;
  }

  /// The consumer: waits for the next chunk; false at the end.
  bool take_chunk() {
    if (has_ended_) return false;
    if (!pool_) start();
    if (!gate_->wait_for(head_)) {
      stop();
      has_ended_ = true;
      return false;
    }
    Chunk chunk = std::exchange(chunk_at(head_), Chunk());
    gate_->release(head_++);
    current_ = std::move(chunk.results);
    taken_ = 0;
    if (chunk.note) {
      noted_ = std::move(*chunk.note);
      noted_place_ += ahead_;
      ahead_ = 0;
    }
    return true;
  }

  void run_worker() {
    std::size_t size = 1;
    while (auto pulled = pull(size)) {
      auto& results = chunk_at(pulled->number).results;
      results.reserve(pulled->elements.size());
      for (Outcome<In>& element : pulled->elements) {
        results.push_back(result_of(std::move(element), pulled->place++));
      }
      gate_->publish(pulled->number);
      size = next_chunk_size(size, Clock::now() - pulled->started, options_.max_chunk);
    }
  }
  std::optional<Pulled> pull(std::size_t size) {
    concurrency::MutexLock lock(pull_mutex_);  // numbers are given in the order of the elements
    const auto number = gate_->claim();
    if (!number) return std::nullopt;
    Pulled pulled{*number, pulled_place_, Clock::now(), {}};
    if (pulled_place_ >= next_note_) {
      chunk_at(*number).note = input_->save();
      next_note_ = pulled_place_ + kElementsPerNote;
    }
    while (pulled.elements.size() < size) {
      Outcome<In> element = outcome_of_next(*input_);
      if (element.is_end()) break;
      pulled.elements.push_back(std::move(element));
    }
    pulled_place_ += pulled.elements.size();
    if (!pulled.elements.empty()) return pulled;
    gate_->end(*number);
    return std::nullopt;
  }
  Outcome<Out> result_of(Outcome<In> element, std::uint64_t place) const {
    if (element.error) return {std::nullopt, std::move(element.error)};
    try {
      return {work_(std::move(*element.element), place), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  /// Stops, goes back to the note and `count` elements on from it; returns how many there were.
  std::uint64_t go_on_from_note(std::uint64_t count) {
    stop();
    has_ended_ = false;
    input_->restore(noted_);
    const std::uint64_t passed = input_->skip(count);
    noted_ = input_->save();
    noted_place_ += passed;
    ahead_ = 0;
    return passed;
  }
  Chunk& chunk_at(std::uint64_t number) { return chunks_[number % chunks_.size()]; }

  const std::unique_ptr<IteratorBase<In>>
      input_;  // the workers', under pull_mutex_, while they run
  const Work work_;
  const PipelineOptions options_;
  io::StateTree noted_;            // the input's state at element noted_place_
  std::uint64_t noted_place_ = 0;  // counted from the start of the epoch
  std::uint64_t ahead_ = 0;        // elements received since the note
  std::vector<Outcome<Out>> current_;
  std::size_t taken_ = 0;   // of current_
  std::uint64_t head_ = 0;  // the number of the chunk that comes after current_
  bool has_ended_ = false;
  std::vector<Chunk> chunks_;  // a ring; gate_ says whose turn it is at each
  concurrency::Mutex pull_mutex_;
  std::uint64_t pulled_place_ = 0;  // under pull_mutex_ while workers run, like next_note_
  std::uint64_t next_note_ = 0;
  std::unique_ptr<OrderedGate> gate_;
  std::unique_ptr<concurrency::ThreadPool> pool_;  // last: joined before anything it uses goes
};

}  // namespace brigade::data
