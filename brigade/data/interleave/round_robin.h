#pragma once

#include <cstdint>

namespace brigade::data::internal {

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

}  // namespace brigade::data::internal
