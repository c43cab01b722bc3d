#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/io/file_system.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/hooks/step_timer.h"

namespace brigade::train {

/// A range of steps, both ends included; the first step of a training is 1.
struct StepRange {
  std::int64_t first = 1;
  std::int64_t last = 1;
};

/// Writes Chrome traces of steps (for ui.perfetto.dev): the step, the hooks, saving, the spans that
/// the program measures with `MonitoredTrainingSession::spans`, and libtorch's operations, with
/// separate rows for each replica; of a pipeline also the passes of its stages. If the session
/// writes summaries, it also writes the times of the nodes of the model's graph in the last of
/// these steps, as "step_<step>" for TensorBoard. Steps that are not recorded have no overhead. A
/// range that the end of the training cuts short is written, too.
///
/// Of workers without collectives the chief profiles alone. It makes some of the job's steps only:
/// a range begins with its first step in it or after it.
struct ProfilerHook {
  /// The directory of `timeline-<step>.json`; created if missing.
  io::Path directory;
  /// Writes one trace of all these steps, with the number of the last one.
  std::optional<StepRange> steps = std::nullopt;
  /// Writes traces of single steps.
  Every every = {};

  /// Throws kInvalidArgument without a directory, for an empty range, and if neither `steps` nor
  /// `every` is set.
  std::shared_ptr<SessionRunHook> hook() const;
};

}  // namespace brigade::train
