#pragma once

#include <cstdint>
#include <optional>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Exactly one of the two must be set.
struct StopAtStep {
  /// The number of steps of this run of the program.
  std::optional<std::int64_t> num_steps = std::nullopt;
  /// The last global step, also for a resumed training.
  std::optional<std::int64_t> last_step = std::nullopt;
};

/// Stops a training after a number of steps. A training that is resumed at the last step makes no
/// further step.
class StopAtStepHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument unless exactly one is set, and for one below 0.
  explicit StopAtStepHook(StopAtStep at);
  /// The number of steps: all workers must stop at the same step.
  comm::Facts facts() const override;
  void after_create_session(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;

 private:
  void stop_if_reached(SessionContext& context) const;
  StopAtStep at_;
};

}  // namespace brigade::train
