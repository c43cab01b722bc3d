#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/interleave/prefetch_queue.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/round_robin.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/element_result.h"

namespace brigade::data::internal {

/// The queues of an interleave whose datasets are read ahead: those in the slots of the cycle, those
/// of the next elements that wait behind them, and whose turn it is. The rules without the threads.
///
/// Thread-safety: one call at a time; the functions of the consumer's own (`has_result`,
/// `selected`, `take`, `position`) may run beside `add` and the searches for queues to read.
template <class T, class U>
class InterleaveCycle {
 public:
  using Queue = PrefetchQueue<T, U>;
  /// Chunks that a queue in a slot may have ready; one that waits behind has one.
  static constexpr std::size_t kReadyChunks = 2;

  /// An input that stands at `start`.
  InterleaveCycle(const InterleaveShape& shape, ReplayPoint start)
      : round_robin_(shape.cycle_length, shape.block_length),
        input_position_(std::move(start)),
        slots_(shape.cycle_length) {}

  // ---- The consumer's own.

  std::uint64_t current_slot() const { return round_robin_.slot(); }
  /// The queue whose turn it is; null: the slot is empty.
  const Queue* current_queue() const { return slots_[round_robin_.slot()].get(); }
  bool has_result() const { return current_queue() != nullptr && current_queue()->has_result(); }
  /// The next result of the queue whose turn it is. One of a dataset that could not be made ends no
  /// turn: `close_failed` must follow, for the next dataset to take the slot.
  ElementResult<U> take() {
    Queue& queue = *slots_[round_robin_.slot()];
    ElementResult<U> result = std::move(queue.current[queue.taken++]);
    ++queue.delivered;
    if (!queue.is_failed) round_robin_.advance(1);
    return result;
  }
  InterleavePosition position() const {
    InterleavePosition position{round_robin_.slot(), round_robin_.block_index(), input_position_, {}};
    for (const auto& queue : slots_) {
      auto& slot = position.slots.emplace_back();
      if (queue) slot = InnerPosition{queue->at, queue->snapshot, queue->delivered};
    }
    return position;
  }

  // ---- What the consumer changes.

  enum class Found { kResult, kEnd, kNothingYet };
  /// Goes on to a queue with a result. Nothing yet: in order, it is the queue whose turn it is now,
  /// or the next to come if there is none, that must be waited for; relaxed, any.
  Found find(Order order) { return order == Order::kInOrder ? find_in_order() : find_ready(); }
  void close_failed() { close(slots_[round_robin_.slot()]); }
  /// How many things workers may do that they could not before: asked once after each change.
  std::size_t take_freed() { return std::exchange(freed_, 0); }

  /// Drops all queues, and begins anew at a position whose open datasets are `put` back.
  void clear() {
    upcoming_.clear();
    for (auto& slot : slots_) slot = nullptr;
    open_ = num_ready_ = freed_ = 0;
    input_has_ended_ = false;
  }
  void put(std::size_t slot, InnerIterator<U> inner) {
    slots_[slot] = std::make_unique<Queue>(std::move(inner));
    ++open_;
  }
  void seek(const InterleavePosition& position) {
    round_robin_.seek(position.cycle_index, position.block_index);
    input_position_ = position.input;
  }

  // ---- The workers'.

  /// Whether another element should be taken from the input, where so many queues may wait behind.
  bool needs_queue(std::size_t next_lanes) const {
    return !input_has_ended_ &&
           open_ + upcoming_.size() < slots_.size() + std::min(next_lanes, slots_.size());
  }
  /// One to read that has less than so many chunks ready, looked for from slot `first` on.
  Queue* find_in_slots(std::size_t chunks, std::uint64_t first) const {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const auto& slot = slots_[(first + i) % slots_.size()];
      if (slot && slot->needs_chunk(chunks)) return slot.get();
    }
    return nullptr;
  }
  /// One to read behind the slots.
  Queue* find_upcoming() const {
    const auto found = std::find_if(upcoming_.begin(), upcoming_.end(),
                                    [](const auto& queue) { return queue->needs_chunk(1); });
    return found == upcoming_.end() ? nullptr : found->get();
  }
  /// Whether a queue could be read but for the consumer, who has not taken what is ready.
  bool has_full_queue() const {
    const auto is_full = [](const auto& queue) { return queue && !queue->is_busy && !queue->is_done; };
    return std::any_of(slots_.begin(), slots_.end(), is_full) ||
           std::any_of(upcoming_.begin(), upcoming_.end(), is_full);
  }
  /// What came from the input: the next element, or its end.
  void add(typename ReplayableInput<T>::Element element) {
    input_has_ended_ = element.result.is_end();
    if (!input_has_ended_) upcoming_.push_back(std::make_unique<Queue>(std::move(element)));
  }
  /// What was read of a queue.
  void publish(Queue& queue, typename Queue::Chunk chunk) {
    if (queue.publish(std::move(chunk))) ++num_ready_;
  }
  /// Chunks, in all queues.
  std::size_t num_ready() const { return num_ready_; }

 private:
  Found find_in_order() {
    while (true) {
      auto& slot = slots_[round_robin_.slot()];
      if (!slot && !fill(slot)) {
        if (!input_has_ended_) return Found::kNothingYet;
        if (open_ == 0) return Found::kEnd;
      } else if (slot->has_result() || take_chunk(*slot)) {
        return Found::kResult;
      } else if (!slot->is_done) {
        return Found::kNothingYet;
      } else {
        close(slot);
      }
      round_robin_.advance_slot();
    }
  }
  Found find_ready() {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const std::uint64_t index = (round_robin_.slot() + i) % slots_.size();
      auto& slot = slots_[index];
      while (slot || fill(slot)) {
        if (slot->has_result() || take_chunk(*slot)) {
          if (i > 0) round_robin_.seek(index, 0);
          return Found::kResult;
        }
        if (!slot->is_done) break;
        close(slot);
      }
    }
    return open_ == 0 && input_has_ended_ ? Found::kEnd : Found::kNothingYet;
  }
  bool fill(std::unique_ptr<Queue>& slot) {
    if (upcoming_.empty()) return false;
    slot = std::move(upcoming_.front());
    upcoming_.pop_front();
    input_position_ = slot->at.after();
    ++open_;
    ++freed_;
    return true;
  }
  void close(std::unique_ptr<Queue>& slot) {
    slot = nullptr;
    --open_;
    ++freed_;
  }
  bool take_chunk(Queue& queue) {
    if (!queue.take_chunk()) return false;
    --num_ready_;
    if (!queue.is_done) ++freed_;
    return true;
  }

  RoundRobin round_robin_;
  ReplayPoint input_position_;  // the last queue that was in a slot
  std::vector<std::unique_ptr<Queue>> slots_;
  std::deque<std::unique_ptr<Queue>> upcoming_;
  std::size_t open_ = 0;       // slots with a queue
  std::size_t num_ready_ = 0;  // chunks, in all queues
  std::size_t freed_ = 0;
  bool input_has_ended_ = false;
};

}  // namespace brigade::data::internal
