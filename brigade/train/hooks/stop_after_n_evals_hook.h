#pragma once

#include <cstdint>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Whether to log the progress.
enum class LogProgress { kNo, kYes };

/// Ends each evaluation after a number of batches (TensorFlow: StopAfterNEvalsHook). May be used
/// for several evaluations, one after the other.
class StopAfterNEvalsHook final : public SessionRunHook {
 public:
  /// With kYes it logs ten times per evaluation: `Evaluation [10/100]`. Throws kInvalidArgument for
  /// `num_evals` below 1.
  explicit StopAfterNEvalsHook(std::int64_t num_evals,
                               LogProgress log_progress = LogProgress::kYes);
  void begin(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;

 private:
  const std::int64_t num_evals_;
  const LogProgress log_progress_;
  std::int64_t done_ = 0;
};

}  // namespace brigade::train
