#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// Writes the summaries of a step. Called by `SummarySaverHook`.
using SummaryFunction =
    std::function<void(summary::SummaryWriter&, std::int64_t step, const StepValues&)>;

/// The parts of a session that depend on the model (TensorFlow: tf.train.Scaffold). All are
/// optional.
struct Scaffold {
  /// Sets the initial values. Called only if no checkpoint was restored; to start from pretrained
  /// weights, call `checkpoint::restore_variables` here. Variables already have the values of their
  /// initializers.
  std::function<void(TrainingState&)> init = {};
  /// Always called, after `init` or the restore: for state that is in no checkpoint.
  std::function<void(TrainingState&)> local_init = {};
  /// Returns why the training cannot start yet, or nothing if it can. Called at the start, before
  /// `local_init`: a worker calls it until the training can start; for a chief a reason is an
  /// error.
  std::function<std::optional<std::string>()> not_ready = {};
  /// How the session saves; its directory is set to the session's `checkpoint_dir`.
  checkpoint::SaverOptions saver = {};
  /// Writes summaries as often as `SessionOptions::save_summaries` says. Empty: every scalar value
  /// of the step is written.
  SummaryFunction summaries = {};
};

}  // namespace brigade::train
