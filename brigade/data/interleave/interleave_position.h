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
