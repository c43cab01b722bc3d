#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// Writes the summaries of a step.
using SummaryFunction =
    std::function<void(summary::SummaryWriter&, std::int64_t step, const StepValues&)>;

/// A SummaryFunction that writes each scalar of `values` under its name.
void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values);

/// Writes summaries of steps into the session's event file. Use two hooks to write two kinds of
/// summaries at different rates. The session throws kFailedPrecondition if it writes no summaries.
struct SummarySaverHook {
  /// How often to write. The first step is always written.
  Every every = {.steps = 100};
  /// Writes the summaries. Empty: `write_numbers`.
  SummaryFunction summaries = {};
  /// Whether to write the model's graph. Only one hook of a session should; the session's built-in
  /// hook does.
  bool write_graph = false;

  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
