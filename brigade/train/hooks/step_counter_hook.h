#pragma once

#include <memory>

#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Reports the speed of the training: a log line and a summary, both named `global_step/sec`.
struct StepCounterHook {
  Every every = {.steps = 100};
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
