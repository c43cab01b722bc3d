#pragma once

#include <cstdint>

namespace brigade::data::internal {

/// Whose turn it is in a cycle of slots.
///
/// Thread-safety: a value.
class Turn {
 public:
  Turn(std::uint64_t cycle_length, std::uint64_t block_length)
      : cycle_length_(cycle_length), block_length_(block_length) {}

  std::uint64_t slot() const { return slot_; }
  std::uint64_t block_index() const { return block_index_; }
  /// Elements that the slot may still give in this turn; without end if it is the only one.
  std::uint64_t left() const {
    return cycle_length_ == 1 ? ~std::uint64_t{0} : block_length_ - block_index_;
  }
  /// The slot gave `count` elements, at most `left()`.
  void advance(std::uint64_t count) {
    if (cycle_length_ == 1) return;
    block_index_ += count;
    if (block_index_ == block_length_) pass_on();
  }
  /// To the next slot.
  void pass_on() {
    block_index_ = 0;
    if (++slot_ == cycle_length_) slot_ = 0;
  }
  void go_to(std::uint64_t slot, std::uint64_t block_index) {
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
