#pragma once

#include <optional>

#include "brigade/train/hooks/every.h"
#include "brigade/train/graph/graph_writer.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/session/scaffold.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

struct SummarySaverHookOptions {
  /// The first step always is.
  Every every = {.steps = 100};
  /// Writes them. Empty: each value of the step that is one number, under its name.
  SummaryFunction summaries = {};
  /// Of several hooks of a session one should; the session's own does.
  WriteGraph graph = WriteGraph::kNo;
};

/// Writes summaries of steps into the session's event file. Two kinds of them at two rates are two
/// hooks.
class SummarySaverHook final : public SessionRunHook {
 public:
  explicit SummarySaverHook(SummarySaverHookOptions options = {});
  /// Throws kFailedPrecondition if the session has no place for summaries.
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
