#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/core/replayable_input.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The parameters that determine the order in which an interleave gives its elements.
struct InterleaveShape {
  std::string name;  // of the transform, in saved positions
  std::uint64_t cycle_length = 1;
  std::uint64_t block_length = 1;
};

/// Selects the slots of an interleave cycle in round-robin order, a block of elements each.
///
/// Thread-safety: a value.
class RoundRobin {
 public:
  RoundRobin(std::uint64_t cycle_length, std::uint64_t block_length)
      : cycle_length_(cycle_length), block_length_(block_length) {}

  std::uint64_t slot() const { return slot_; }
  std::uint64_t block_index() const { return block_index_; }
  /// Elements that the slot may still give in this block; unlimited if it is the only slot.
  std::uint64_t remaining_in_block() const {
    return cycle_length_ == 1 ? ~std::uint64_t{0} : block_length_ - block_index_;
  }
  /// Counts `count` elements of the slot, at most `remaining_in_block()`.
  void advance(std::uint64_t count) {
    if (cycle_length_ == 1) return;
    block_index_ += count;
    if (block_index_ == block_length_) advance_slot();
  }
  /// Moves to the next slot.
  void advance_slot() {
    block_index_ = 0;
    if (++slot_ == cycle_length_) slot_ = 0;
  }
  void seek(std::uint64_t slot, std::uint64_t block_index) {
    slot_ = slot;
    block_index_ = block_index;
  }

 private:
  std::uint64_t cycle_length_;
  std::uint64_t block_length_;
  std::uint64_t slot_ = 0;
  std::uint64_t block_index_ = 0;
};

/// The position in an inner dataset after the last element that was delivered.
struct InnerPosition {
  ReplayPoint element;                 // the element that the dataset was made from
  std::optional<io::StateTree> state;  // of the dataset's iterator; unset: at its start
  std::uint64_t delivered = 0;         // elements delivered after `state`
};

/// The position of an interleave: the current slot, and the open dataset in each slot of the cycle.
struct InterleavePosition {
  std::uint64_t cycle_index = 0;
  std::uint64_t block_index = 0;
  ReplayPoint input;
  std::vector<std::optional<InnerPosition>> slots;

  /// The open slots in the order of their input elements, so that one pass over the input restores
  /// them all.
  std::vector<std::size_t> slots_by_element() const;
};

/// Each input snapshot is saved once, even if several slots refer to it.
io::StateTree save_interleave(const InterleaveShape& shape, const InterleavePosition& position);

/// Throws kInvalidArgument if the state belongs to another transform or cycle, or is invalid.
InterleavePosition load_interleave(const InterleaveShape& shape, const io::StateTree& state);

}  // namespace brigade::data::internal
