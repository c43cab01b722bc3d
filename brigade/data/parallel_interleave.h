#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/data/inner_walk.h"
#include "brigade/data/interleave_lane.h"
#include "brigade/data/interleave_position.h"
#include "brigade/data/interleave_walk.h"
#include "brigade/data/node.h"
#include "brigade/data/noted_input.h"
#include "brigade/data/order.h"
#include "brigade/data/outcome.h"
#include "brigade/data/pipeline.h"

namespace brigade::data::internal {

/// Interleaves as `InterleaveIterator` does, with threads that make the inner datasets and read
/// each a bounded way ahead: those whose turn it is, and a few that come after them. In order it
/// gives the same elements in the same order; relaxed it gives what is ready in place of waiting.
///
/// The saved position is that of the consumer, in the form of `InterleaveIterator`: for each open
/// dataset a noted state and the number of elements delivered since, for the input the place behind
/// the last dataset that got a turn. So nothing is lost or doubled, however far the threads are.
///
/// Threads start with the first `next()` and are joined at the end, on `restore` and on
/// destruction.
///
/// Thread-safety: as `IteratorBase`; the maker's function is called by several threads at once.
template <class T, class U>
class ParallelInterleaveIterator final : public IteratorBase<U> {
 public:
  ParallelInterleaveIterator(NotedInput<T> input, InnerMaker<T, U> maker, InterleaveShape shape,
                             std::size_t threads, Order order)
      : input_(std::move(input)),
        maker_(std::move(maker)),
        shape_(std::move(shape)),
        threads_(std::min<std::size_t>(threads, 2 * shape_.cycle_length)),
        next_lanes_(std::min<std::size_t>(threads, shape_.cycle_length)),
        order_(order),
        turn_(shape_.cycle_length, shape_.block_length),
        behind_(input_.here()),
        slots_(shape_.cycle_length) {}
  ~ParallelInterleaveIterator() override { stop(); }

  std::optional<U> next() override {
    if (has_ended_) return std::nullopt;
    if (!pool_) start();
    const auto& lane = slots_[turn_.slot()];
    if (!(lane && lane->has_result()) && !select()) {
      stop();
      has_ended_ = true;
      return std::nullopt;
    }
    return give();
  }
  std::uint64_t skip(std::uint64_t count) override {
    // What is under way goes by faster than the datasets open anew.
    if (count < kLongSkip || order_ == Order::kRelaxed) return IteratorBase<U>::skip(count);
    const io::StateTree state = save();
    stop();
    InterleaveIterator<T, U> walk(std::move(input_), maker_, shape_);
    walk.restore(state);
    const std::uint64_t passed = walk.skip(count);
    const io::StateTree reached = walk.save();
    input_ = std::move(walk).release_input();
    restore(reached);
    return passed;
  }
  io::StateTree save() const override {
    InterleavePosition position{turn_.slot(), turn_.block_index(), behind_, {}};
    for (const auto& lane : slots_) {
      auto& slot = position.slots.emplace_back();
      if (lane) slot = InnerPosition{lane->at, lane->noted, lane->ahead};
    }
    return save_interleave(shape_, position);
  }
  void restore(const io::StateTree& state) override {
    const InterleavePosition position = load_interleave(shape_, state);
    stop();
    std::vector<InnerWalk<U>> walks = reopen_all(input_, maker_, position);
    for (std::size_t slot = 0; slot < walks.size(); ++slot) {
      if (walks[slot].is_open()) slots_[slot] = std::make_unique<Lane>(std::move(walks[slot]));
    }
    turn_.go_to(position.cycle_index, position.block_index);
    behind_ = position.input;
    has_ended_ = false;
  }
  bool keeps_place_when_cancelled() const override { return true; }

 private:
  using Clock = std::chrono::steady_clock;
  using Lane = InterleaveLane<T, U>;
  using Chunk = typename Lane::Chunk;
  /// Small enough that a restore repeats little, large enough that notes cost next to nothing.
  static constexpr std::uint64_t kElementsPerNote = 16;
  static constexpr std::size_t kReadyChunks = 2;
  static constexpr std::size_t kMostAtOnce = 16;  // elements of a chunk, if they are that fast
  static constexpr std::uint64_t kLongSkip = 1024;

  // ---- The consumer.

  /// The result whose turn it is. An error is passed like an element, one of a dataset that could
  /// not be made with its slot.
  std::optional<U> give() {
    auto& slot = slots_[turn_.slot()];
    Outcome<U> outcome = std::move(slot->current[slot->taken++]);
    ++slot->ahead;
    if (slot->is_failed) {
      const concurrency::MutexLock lock(mutex_);
      close(slot);
    } else {
      turn_.advance(1);
    }
    return std::move(outcome).take();
  }
  /// Goes on to a slot with a result; false at the end of all. Throws if the job gives up waiting.
  bool select() {
    const concurrency::MutexLock lock(mutex_);
    while (true) {
      const auto found = order_ == Order::kInOrder ? find_in_order() : find_ready();
      if (found) return *found;
      if (failure_) std::rethrow_exception(failure_);
      awaited_ = order_ == Order::kInOrder ? slots_[turn_.slot()].get() : nullptr;
      urgent_slot_ = turn_.slot();
      if (maker_.options.cancel) maker_.options.cancel->throw_if_cancelled(maker_.where);
      filled_.wait(mutex_);
    }
  }
  /// Nothing: wait and look again.
  std::optional<bool> find_in_order() BRIGADE_REQUIRES(mutex_) {
    while (true) {
      auto& slot = slots_[turn_.slot()];
      if (!slot && !fill(slot)) {
        if (!input_has_ended_) return std::nullopt;
        if (open_ == 0) return false;
      } else if (slot->has_result() || take_chunk(*slot)) {
        return true;
      } else if (!slot->is_done) {
        return std::nullopt;
      } else {
        close(slot);
      }
      turn_.pass_on();
    }
  }
  std::optional<bool> find_ready() BRIGADE_REQUIRES(mutex_) {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const std::uint64_t index = (turn_.slot() + i) % slots_.size();
      auto& slot = slots_[index];
      while (slot || fill(slot)) {
        if (slot->has_result() || take_chunk(*slot)) {
          if (i > 0) turn_.go_to(index, 0);
          return true;
        }
        if (!slot->is_done) break;
        close(slot);
      }
    }
    if (open_ == 0 && input_has_ended_) return false;
    return std::nullopt;
  }
  bool fill(std::unique_ptr<Lane>& slot) BRIGADE_REQUIRES(mutex_) {
    if (coming_.empty()) return false;
    slot = std::move(coming_.front());
    coming_.pop_front();
    behind_ = slot->at.after();
    ++open_;
    work_.notify_one();
    return true;
  }
  void close(std::unique_ptr<Lane>& slot) BRIGADE_REQUIRES(mutex_) {
    slot = nullptr;
    --open_;
    work_.notify_one();
  }
  bool take_chunk(Lane& lane) BRIGADE_REQUIRES(mutex_) {
    if (!lane.take_chunk()) return false;
    if (!lane.is_done) work_.notify_one();
    return true;
  }

  // ---- The workers.

  struct Task {
    Lane* lane;  // to read; none: take the next element from the input
  };

  void run_worker() {
    while (const auto task = claim()) {
      if (task->lane) {
        read(*task->lane);
      } else {
        pull();
      }
    }
  }
  std::optional<Task> claim() {
    const concurrency::MutexLock lock(mutex_);
    while (!is_stopped_) {
      if (Lane* lane = find_lane(1)) return claim(*lane);
      if (may_pull()) {
        is_pulling_ = true;
        return Task{nullptr};
      }
      for (const auto& lane : coming_) {
        if (lane->wants(1)) return claim(*lane);
      }
      if (Lane* lane = find_lane(kReadyChunks)) return claim(*lane);
      work_.wait(mutex_);
    }
    return std::nullopt;
  }
  static Task claim(Lane& lane) {
    lane.is_busy = true;
    return Task{&lane};
  }
  /// One in a slot with less than so many chunks ready, the next ones to be given first.
  Lane* find_lane(std::size_t chunks) BRIGADE_REQUIRES(mutex_) {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const auto& slot = slots_[(urgent_slot_ + i) % slots_.size()];
      if (slot && slot->wants(chunks)) return slot.get();
    }
    return nullptr;
  }
  bool may_pull() const BRIGADE_REQUIRES(mutex_) {
    return !is_pulling_ && !input_has_ended_ &&
           open_ + coming_.size() < slots_.size() + next_lanes_;
  }
  void pull() {
    auto element = input_.next();
    const concurrency::MutexLock lock(mutex_);
    is_pulling_ = false;
    input_has_ended_ = element.outcome.is_end();
    if (!input_has_ended_) coming_.push_back(std::make_unique<Lane>(std::move(element)));
    if (awaited_ == nullptr) filled_.notify_one();
    work_.notify_one();
  }
  void read(Lane& lane) {
    const Clock::time_point started = Clock::now();
    if (!lane.walk.is_open()) lane.walk = maker_.open(lane.at, std::move(lane.element));
    Chunk chunk;
    const bool is_failed = lane.walk.error != nullptr;
    bool is_done = is_failed;
    if (is_failed) {
      if (maker_.is_cancelled()) std::rethrow_exception(lane.walk.error);
      chunk.results.push_back({std::nullopt, lane.walk.error});
    } else {
      is_done = read_chunk(lane, chunk);
    }
    if (is_done) lane.walk.close();  // its files and threads are not needed any more
    lane.chunk_size = next_chunk_size(lane.chunk_size, Clock::now() - started, kMostAtOnce);
    const concurrency::MutexLock lock(mutex_);
    if (!chunk.results.empty()) lane.ready.push_back(std::move(chunk));
    lane.is_busy = false;
    lane.is_done = is_done;
    if (is_failed) lane.is_failed = true;
    if (awaited_ == nullptr || awaited_ == &lane) filled_.notify_one();
  }
  /// Whether the dataset is at its end.
  bool read_chunk(Lane& lane, Chunk& chunk) {
    if (lane.read >= kElementsPerNote) {
      chunk.note = lane.walk.iterator->save();
      lane.read = 0;
    }
    while (chunk.results.size() < lane.chunk_size) {
      Outcome<U> outcome = next_of(lane.walk);
      if (outcome.is_end()) return true;
      chunk.results.push_back(std::move(outcome));
      ++lane.read;
    }
    return false;
  }
  Outcome<U> next_of(InnerWalk<U>& walk) const {
    try {
      return {maker_.next(walk), nullptr};
    } catch (...) {
      if (maker_.is_cancelled()) throw;  // no element's error: the walk is given up
      return {std::nullopt, std::current_exception()};
    }
  }

  void start() {
    {
      const concurrency::MutexLock lock(mutex_);
      open_ = 0;
      for (const auto& lane : slots_) open_ += lane ? 1 : 0;
      is_stopped_ = is_pulling_ = input_has_ended_ = false;
      failure_ = nullptr;
      urgent_slot_ = turn_.slot();
      awaited_ = nullptr;
    }
    if (maker_.options.cancel) {
      wake_ = maker_.options.cancel->on_cancel([this] {
        const concurrency::MutexLock lock(mutex_);
        filled_.notify_all();
      });
    }
    pool_ = std::make_unique<concurrency::ThreadPool>(
        concurrency::ThreadPoolOptions{.threads = threads_, .name = shape_.name});
    for (std::size_t i = 0; i < threads_; ++i) {
      pool_->submit([this] {
        try {
          run_worker();
        } catch (...) {  // not an element's error, those travel with it
          fail(std::current_exception());
        }
      });
    }
  }
  void fail(std::exception_ptr reason) {
    const concurrency::MutexLock lock(mutex_);
    if (!failure_) failure_ = std::move(reason);
    is_stopped_ = true;
    filled_.notify_all();
    work_.notify_all();
  }
  /// Joins the threads and drops what they have read ahead.
  void stop() {
    wake_ = {};
    {
      const concurrency::MutexLock lock(mutex_);
      is_stopped_ = true;
      work_.notify_all();
    }
    pool_ = nullptr;
    coming_.clear();
    for (auto& slot : slots_) slot = nullptr;
  }

  NotedInput<T> input_;  // of the worker that pulls, while they run
  const InnerMaker<T, U> maker_;
  const InterleaveShape shape_;
  const std::size_t threads_;
  const std::size_t next_lanes_;  // read ahead beyond those in slots
  const Order order_;
  bool has_ended_ = false;

  concurrency::Mutex mutex_;
  concurrency::Condition work_;    // for workers: a lane has room, or the input is wanted
  concurrency::Condition filled_;  // for the consumer: a lane has results, or is done, or failed
  Turn turn_;
  InputPlace behind_;  // the last lane that was in a slot
  // Changed by the consumer only, under the mutex while workers run: it reads them without.
  std::vector<std::unique_ptr<Lane>> slots_;
  // Under the mutex.
  std::deque<std::unique_ptr<Lane>> coming_ BRIGADE_GUARDED_BY(mutex_);
  std::uint64_t urgent_slot_ BRIGADE_GUARDED_BY(mutex_) = 0;
  const Lane* awaited_ BRIGADE_GUARDED_BY(mutex_) = nullptr;  // by the consumer; null: by any
  std::size_t open_ BRIGADE_GUARDED_BY(mutex_) = 0;           // slots with a lane
  bool is_pulling_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool input_has_ended_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool is_stopped_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ BRIGADE_GUARDED_BY(mutex_);
  concurrency::CancelRegistration wake_;
  std::unique_ptr<concurrency::ThreadPool> pool_;  // last: joined before anything it uses goes
};

}  // namespace brigade::data::internal
