#pragma once

#include "brigade/data/core/replayable_input.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// A place in an input as a part of a saved state: the state noted last before it, and how far
/// behind that it lies.
io::StateTree save_replay_point(const ReplayPoint& point);

/// Throws kInvalidArgument if `state` is none that `save_replay_point` made.
ReplayPoint load_replay_point(const io::StateTree& state);

}  // namespace brigade::data::internal
