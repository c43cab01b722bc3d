#pragma once

#include <optional>
#include <vector>

#include "brigade/distribute/step_times.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Reports what each replica spends the time of its steps on: input, compute, waiting for peers,
/// communication and update (it turns `Strategy::measure_steps` on). Writes a log line, and
/// summaries `step_shares/replica_0/input` and so on, each from 0 to 1, over the steps since the
/// last report.
class StepBreakdownHook final : public SessionRunHook {
 public:
  explicit StepBreakdownHook(Every every = {.steps = 100}) : every_(every) {}
  void begin(SessionContext& context) override;
  void after_create_session(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  void end(SessionContext& context) override;

 private:
  std::vector<distribute::StepTimes> since_last(SessionContext& context);
  Every every_;
  std::optional<StepTimer> timer_;
  std::vector<distribute::StepTimes> last_;  // [replica]
};

}  // namespace brigade::train
