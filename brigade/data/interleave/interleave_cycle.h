#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/interleave/interleave_lane.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/interleave_turn.h"
#include "brigade/data/core/noted_input.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/outcome.h"

namespace brigade::data::internal {

/// The lanes of an interleave whose datasets are read ahead: those in the slots of the cycle, those
/// of the next elements that wait behind them, and whose turn it is. The rules without the threads.
///
/// Thread-safety: one call at a time; the functions of the consumer's own (`has_result`,
/// `selected`, `take`, `position`) may run beside `add` and the searches for lanes to read.
template <class T, class U>
class InterleaveCycle {
 public:
  using Lane = InterleaveLane<T, U>;
  /// Chunks that a lane in a slot may have ready; one that waits behind has one.
  static constexpr std::size_t kReadyChunks = 2;

  /// An input that stands at `start`.
  InterleaveCycle(const InterleaveShape& shape, InputPlace start)
      : turn_(shape.cycle_length, shape.block_length),
        behind_(std::move(start)),
        slots_(shape.cycle_length) {}

  // ---- The consumer's own.

  std::uint64_t slot_at_turn() const { return turn_.slot(); }
  /// The lane whose turn it is; null: the slot is empty.
  const Lane* lane_at_turn() const { return slots_[turn_.slot()].get(); }
  bool has_result() const { return lane_at_turn() != nullptr && lane_at_turn()->has_result(); }
  /// The next result of the lane whose turn it is. One of a dataset that could not be made ends no
  /// turn: `close_failed` must follow, for the next dataset to take the slot.
  Outcome<U> take() {
    Lane& lane = *slots_[turn_.slot()];
    Outcome<U> outcome = std::move(lane.current[lane.taken++]);
    ++lane.ahead;
    if (!lane.is_failed) turn_.advance(1);
    return outcome;
  }
  InterleavePosition position() const {
    InterleavePosition position{turn_.slot(), turn_.block_index(), behind_, {}};
    for (const auto& lane : slots_) {
      auto& slot = position.slots.emplace_back();
      if (lane) slot = InnerPosition{lane->at, lane->noted, lane->ahead};
    }
    return position;
  }

  // ---- What the consumer changes.

  enum class Found { kResult, kEnd, kNothingYet };
  /// Goes on to a lane with a result. Nothing yet: in order, it is the lane whose turn it is now,
  /// or the next to come if there is none, that must be waited for; relaxed, any.
  Found find(Order order) { return order == Order::kInOrder ? find_in_order() : find_ready(); }
  void close_failed() { close(slots_[turn_.slot()]); }
  /// How many things workers may do that they could not before: asked once after each change.
  std::size_t take_freed() { return std::exchange(freed_, 0); }

  /// Drops all lanes, and begins anew at a position whose open datasets are `put` back.
  void clear() {
    coming_.clear();
    for (auto& slot : slots_) slot = nullptr;
    open_ = num_ready_ = freed_ = 0;
    input_has_ended_ = false;
  }
  void put(std::size_t slot, InnerWalk<U> walk) {
    slots_[slot] = std::make_unique<Lane>(std::move(walk));
    ++open_;
  }
  void go_to(const InterleavePosition& position) {
    turn_.go_to(position.cycle_index, position.block_index);
    behind_ = position.input;
  }

  // ---- The workers'.

  /// Whether another element should be taken from the input, where so many lanes may wait behind.
  bool wants_lane(std::size_t next_lanes) const {
    return !input_has_ended_ &&
           open_ + coming_.size() < slots_.size() + std::min(next_lanes, slots_.size());
  }
  /// One to read that has less than so many chunks ready, looked for from slot `first` on.
  Lane* find_in_slots(std::size_t chunks, std::uint64_t first) const {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const auto& slot = slots_[(first + i) % slots_.size()];
      if (slot && slot->wants(chunks)) return slot.get();
    }
    return nullptr;
  }
  /// One to read behind the slots.
  Lane* find_coming() const {
    const auto found = std::find_if(coming_.begin(), coming_.end(),
                                    [](const auto& lane) { return lane->wants(1); });
    return found == coming_.end() ? nullptr : found->get();
  }
  /// Whether a lane could be read but for the consumer, who has not taken what is ready.
  bool has_full_lane() const {
    const auto is_full = [](const auto& lane) { return lane && !lane->is_busy && !lane->is_done; };
    return std::any_of(slots_.begin(), slots_.end(), is_full) ||
           std::any_of(coming_.begin(), coming_.end(), is_full);
  }
  /// What came from the input: the next element, or its end.
  void add(typename NotedInput<T>::Element element) {
    input_has_ended_ = element.outcome.is_end();
    if (!input_has_ended_) coming_.push_back(std::make_unique<Lane>(std::move(element)));
  }
  /// What was read of a lane.
  void publish(Lane& lane, typename Lane::Chunk chunk) {
    if (lane.publish(std::move(chunk))) ++num_ready_;
  }
  /// Chunks, in all lanes.
  std::size_t num_ready() const { return num_ready_; }

 private:
  Found find_in_order() {
    while (true) {
      auto& slot = slots_[turn_.slot()];
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
      turn_.pass_on();
    }
  }
  Found find_ready() {
    for (std::uint64_t i = 0; i < slots_.size(); ++i) {
      const std::uint64_t index = (turn_.slot() + i) % slots_.size();
      auto& slot = slots_[index];
      while (slot || fill(slot)) {
        if (slot->has_result() || take_chunk(*slot)) {
          if (i > 0) turn_.go_to(index, 0);
          return Found::kResult;
        }
        if (!slot->is_done) break;
        close(slot);
      }
    }
    return open_ == 0 && input_has_ended_ ? Found::kEnd : Found::kNothingYet;
  }
  bool fill(std::unique_ptr<Lane>& slot) {
    if (coming_.empty()) return false;
    slot = std::move(coming_.front());
    coming_.pop_front();
    behind_ = slot->at.after();
    ++open_;
    ++freed_;
    return true;
  }
  void close(std::unique_ptr<Lane>& slot) {
    slot = nullptr;
    --open_;
    ++freed_;
  }
  bool take_chunk(Lane& lane) {
    if (!lane.take_chunk()) return false;
    --num_ready_;
    if (!lane.is_done) ++freed_;
    return true;
  }

  Turn turn_;
  InputPlace behind_;  // the last lane that was in a slot
  std::vector<std::unique_ptr<Lane>> slots_;
  std::deque<std::unique_ptr<Lane>> coming_;
  std::size_t open_ = 0;       // slots with a lane
  std::size_t num_ready_ = 0;  // chunks, in all lanes
  std::size_t freed_ = 0;
  bool input_has_ended_ = false;
};

}  // namespace brigade::data::internal
