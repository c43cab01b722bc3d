#pragma once

#include <span>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/ps/store/parameter.h"
#include "brigade/ps/store/store_state.h"

namespace brigade::ps {

/// A variable in a snapshot.
struct SavedVariable {
  std::string name;
  Parameter::Settings settings;
  Parameter::State state;
};

/// A server's state as a checkpoint (docs/formats.md, "Updates"); shares the tensors.
checkpoint::Contents snapshot_contents(const StoreState& state,
                                       std::span<const SavedVariable> variables);

struct LoadedSnapshot {
  StoreState state;
  Parameters parameters;
};
/// The inverse. Throws kDataLoss, naming it, if a tensor is missing, and as Checkpoint.
LoadedSnapshot load_snapshot(const checkpoint::Checkpoint& snapshot);

}  // namespace brigade::ps
