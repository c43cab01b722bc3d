#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "brigade/io/file_system.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::summary {
class SummaryWriter;
}  // namespace brigade::summary

namespace brigade::train {

/// Writes the summaries of a step.
using SummaryFunction =
    std::function<void(summary::SummaryWriter&, std::int64_t step, const StepValues&)>;

/// A SummaryFunction that writes each scalar of `values` under its name.
void write_numbers(summary::SummaryWriter& summaries, std::int64_t step, const StepValues& values);

/// The summary of the staleness of updates.
inline constexpr std::string_view kStalenessTag = "parameter_server/staleness";

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
  /// Whether to write how stale this worker's updates were since the last summary, as the histogram
  /// `kStalenessTag`. Nothing is written if they cannot be stale (`Strategy::staleness`), or if
  /// none was made. Only one hook of a session should; the session's built-in hook does.
  bool write_staleness = false;

  std::shared_ptr<SessionRunHook> hook() const;
};

/// Writes summaries when a session ends, at its global step, and flushes them (TensorFlow:
/// tf.contrib.training.SummaryAtEndHook). Not after an error. May be used for several evaluations,
/// one after the other: all go into one event file.
struct SummaryAtEndHook {
  /// The directory of the event file: "run/eval", for example, which TensorBoard shows next to
  /// "run".
  io::Path directory;
  /// Computes the values; each scalar is written under its name.
  std::function<StepValues(SessionContext&)> values;

  /// Throws kInvalidArgument if one of the two is missing.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
