#pragma once

#include <cstdint>

#include "brigade/train/hooks/hook.h"

namespace brigade::train {

/// Whether something writes to the log how far it is.
enum class LogProgress { kNo, kYes };

/// Ends each evaluation behind so many batches (TensorFlow: StopAfterNEvalsHook).
/// May be used for one evaluation after the other.
class StopAfterNEvalsHook final : public SessionRunHook {
 public:
  /// With kYes it logs each tenth of the way: `Evaluation [10/100]`. Throws kInvalidArgument for
  /// less than one.
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
