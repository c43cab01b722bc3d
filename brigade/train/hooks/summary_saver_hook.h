#pragma once

#include <optional>

#include "brigade/train/graph/graph_writer.h"
#include "brigade/train/hooks/every.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/session/scaffold.h"

namespace brigade::train {

struct SummarySaverHookOptions {
  /// How often to write. The first step is always written.
  Every every = {.steps = 100};
  /// Writes the summaries. Empty: writes each scalar of the step under its name.
  SummaryFunction summaries = {};
  /// Whether to write the model's graph. Only one hook of a session should; the session's built-in
  /// hook does.
  bool write_graph = false;
};

/// Writes summaries of steps into the session's event file. Use two hooks to write two kinds of
/// summaries at different rates.
class SummarySaverHook final : public SessionRunHook {
 public:
  explicit SummarySaverHook(SummarySaverHookOptions options = {});
  /// Throws kFailedPrecondition if the session writes no summaries.
  void begin(SessionContext& context) override;
  void before_run(SessionContext& context) override;
  void after_run(SessionContext& context, const StepValues& values) override;
  void end(SessionContext& context) override;

 private:
  SummarySaverHookOptions options_;
  std::optional<StepTimer> timer_;
  GraphWriter graph_;
};

}  // namespace brigade::train
