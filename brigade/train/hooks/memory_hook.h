#pragma once

#include <memory>

#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Writes the memory of this process over the steps, as the summary `memory/resident_bytes`: a
/// curve that keeps growing is a leak. Memory of GPUs is not in it. Does nothing in a session
/// without summaries.
struct MemoryHook {
  Every every = {.steps = 100};
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
