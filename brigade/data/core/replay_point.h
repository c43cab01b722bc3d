#pragma once

#include "brigade/data/core/noted_input.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// A place in an input as a part of a saved state: the state noted last before it, and how far
/// behind that it lies.
io::StateTree save_place(const InputPlace& place);

/// Throws kInvalidArgument if `state` is none that `save_place` made.
InputPlace load_place(const io::StateTree& state);

}  // namespace brigade::data::internal
