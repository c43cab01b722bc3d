#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/data/core/noted_input.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// What decides the order in which an interleave gives its elements.
struct InterleaveShape {
  std::string name;  // of the transform, in saved states
  std::uint64_t cycle_length = 1;
  std::uint64_t block_length = 1;
};

/// The place in an inner dataset behind what was delivered of it.
struct InnerPosition {
  InputPlace element;                  // that the dataset was made from
  std::optional<io::StateTree> state;  // of the dataset's iterator; none: at its start
  std::uint64_t ahead = 0;             // elements from `state` on
};

/// Where an interleave stands: whose turn it is, and what lies open in each slot of the cycle.
struct InterleavePosition {
  std::uint64_t cycle_index = 0;
  std::uint64_t block_index = 0;
  InputPlace input;
  std::vector<std::optional<InnerPosition>> slots;

  /// The open slots, in the order of the elements that they were made from: how restoring reads
  /// them from the input in one go.
  std::vector<std::size_t> slots_by_element() const;
};

/// Each state of the input that several slots tell their place from is saved once.
io::StateTree save_interleave(const InterleaveShape& shape, const InterleavePosition& position);

/// Throws kInvalidArgument if the state is of another transform or cycle, or is broken.
InterleavePosition load_interleave(const InterleaveShape& shape, const io::StateTree& state);

}  // namespace brigade::data::internal
