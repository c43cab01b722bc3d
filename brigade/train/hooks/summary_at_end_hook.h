#pragma once

#include <functional>
#include <optional>

#include "brigade/io/file_system.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/hooks/hook.h"

namespace brigade::train {

struct SummaryAtEndHookOptions {
  /// The directory of the event file: "run/eval", for example, which TensorBoard shows next to
  /// "run".
  io::Path directory;
  /// Computes the values; each scalar is written under its name.
  std::function<StepValues(SessionContext&)> values;
};

/// Writes summaries when a session ends, at its global step, and flushes them (TensorFlow:
/// tf.contrib.training.SummaryAtEndHook). Not after an error. May be used for several evaluations,
/// one after the other: all go into one event file.
class SummaryAtEndHook final : public SessionRunHook {
 public:
  /// Throws kInvalidArgument if one of the two is missing.
  explicit SummaryAtEndHook(SummaryAtEndHookOptions options);
  void end(SessionContext& context) override;

 private:
  const SummaryAtEndHookOptions options_;
  const base::SystemClock clock_;
  std::optional<summary::SummaryWriter> summaries_;
};

}  // namespace brigade::train
