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

/// Reports what each replica spends the time of its steps on: input, compute, waiting for peers,
/// communication and update (it turns `Strategy::measure_steps` on). Writes a log line, and
/// summaries `step_shares/replica_0/input` and so on, each from 0 to 1, over the steps since the
/// last report.
struct StepBreakdownHook {
  Every every = {.steps = 100};
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
