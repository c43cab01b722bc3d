#pragma once

#include <optional>

#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Reports the speed of the training: a log line and a summary, both named `global_step/sec`.
class StepCounterHook final : public SessionRunHook {
 public:
  explicit StepCounterHook(Every every = {.steps = 100}) : every_(every) {}
  void begin(SessionContext& context) override;
  void after_create_session(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;

 private:
  Every every_;
  std::optional<StepTimer> timer_;
};

}  // namespace brigade::train
