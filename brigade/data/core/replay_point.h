#pragma once

#include "brigade/data/core/replayable_input.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

/// The replay point as a part of a saved state: the snapshot's index and state, and the point's
/// index.
io::StateTree save_replay_point(const ReplayPoint& point);

/// Throws kInvalidArgument if `state` was not made by `save_replay_point`.
ReplayPoint load_replay_point(const io::StateTree& state);

}  // namespace brigade::data::internal
