#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/data/core/element_result.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/prefetch_queue.h"

namespace brigade::data::internal {

/// The prefetch queues of an interleave: those in the slots of the cycle, the upcoming ones of the
/// next input elements, and the current slot. The scheduling rules, without the threads.
///
/// Thread-safety: one call at a time; the consumer's functions (`has_result`, `take`, `position`)
/// may run concurrently with `add` and with the searches for queues to read.
template <class T, class U>
class InterleaveCycle {
 public:
  using Queue = PrefetchQueue<T, U>;
  /// Maximum ready chunks of a queue in a slot; an upcoming queue has at most one.
  static constexpr std::size_t kReadyChunks = 2;

  /// The input is at `start`.
  InterleaveCycle(const InterleaveShape& shape, ReplayPoint start)
      : round_robin_(shape.cycle_length, shape.block_length),
        input_position_(std::move(start)),
        slots_(shape.cycle_length) {}

  // ---- Called by the consumer, without the mutex.

  std::uint64_t current_slot() const { return round_robin_.slot(); }
  /// The queue in the current slot; null if the slot is empty.
  const Queue* current_queue() const { return slots_[round_robin_.slot()].get(); }
  bool has_result() const { return current_queue() != nullptr && current_queue()->has_result(); }
  /// The next result of the current queue. The error of a dataset that could not be created does
  /// not count toward the block: call `close_failed` next, so that the next dataset takes the slot.
  ElementResult<U> take() {
    Queue& queue = *slots_[round_robin_.slot()];
    ElementResult<U> result = std::move(queue.current[queue.taken++]);
    ++queue.delivered;
    if (!queue.is_failed) round_robin_.advance(1);
    return result;
  }
  InterleavePosition position() const {
    InterleavePosition position{
        round_robin_.slot(), round_robin_.block_index(), input_position_, {}};
    for (const auto& queue : slots_) {
      auto& slot = position.slots.emplace_back();
      if (queue) slot = InnerPosition{queue->at, queue->snapshot, queue->delivered};
    }
    return position;
  }

  // ---- Called by the consumer, with the mutex.

  enum class Found { kResult, kEnd, kNothingYet };
  /// Advances to a queue with a result. kNothingYet: in order, the consumer must wait for the
  /// current queue, or for the next one if the slot is empty; relaxed, for any queue.
  Found find(Order order) { return order == Order::kInOrder ? find_in_order() : find_ready(); }
  void close_failed() { close(slots_[round_robin_.slot()]); }
  /// The number of tasks that became available to workers since the last call.
  std::size_t take_freed() { return std::exchange(freed_, 0); }

  /// Drops all queues. To restore a position, `put` its open datasets back and call `seek`.
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

  // ---- Called by workers.

  /// Whether another element should be read from the input, with at most `next_queues` upcoming
  /// queues.
  bool needs_queue(std::size_t next_queues) const {
    return !input_has_ended_ &&
           open_ + upcoming_.size() < slots_.size() + std::min(next_queues, slots_.size());
  }
  /// A queue to read with fewer than `chunks` ready chunks, searched from slot `first`.
  Queue* find_in_slots(std::size_t chunks, std::uint64_t first) const {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const auto& slot = slots_[(first + i) % slots_.size()];
      if (slot && slot->needs_chunk(chunks)) return slot.get();
    }
    return nullptr;
  }
  /// An upcoming queue to read.
  Queue* find_upcoming() const {
    const auto found = std::find_if(upcoming_.begin(), upcoming_.end(),
                                    [](const auto& queue) { return queue->needs_chunk(1); });
    return found == upcoming_.end() ? nullptr : found->get();
  }
  /// Whether a queue is idle only because the consumer has not taken its ready chunks.
  bool has_full_queue() const {
    const auto is_full = [](const auto& queue) {
      return queue && !queue->is_busy && !queue->is_done;
    };
    return std::any_of(slots_.begin(), slots_.end(), is_full) ||
           std::any_of(upcoming_.begin(), upcoming_.end(), is_full);
  }
  /// Adds the next element of the input, or its end.
  void add(typename ReplayableInput<T>::Element element) {
    input_has_ended_ = element.result.is_end();
    if (!input_has_ended_) upcoming_.push_back(std::make_unique<Queue>(std::move(element)));
  }
  /// Adds a chunk that was read for a queue.
  void publish(Queue& queue, typename Queue::Chunk chunk) {
    if (queue.publish(std::move(chunk))) ++num_ready_;
  }
  /// Ready chunks in all queues.
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
  ReplayPoint input_position_;  // after the last element whose dataset entered a slot
  std::vector<std::unique_ptr<Queue>> slots_;
  std::deque<std::unique_ptr<Queue>> upcoming_;
  std::size_t open_ = 0;       // slots with a queue
  std::size_t num_ready_ = 0;  // chunks, in all queues
  std::size_t freed_ = 0;
  bool input_has_ended_ = false;
};

}  // namespace brigade::data::internal
