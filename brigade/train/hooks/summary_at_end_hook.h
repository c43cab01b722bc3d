#pragma once

#include <functional>
#include <memory>

#include "brigade/io/file_system.h"
#include "brigade/train/hooks/hook.h"

namespace brigade::train {

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
