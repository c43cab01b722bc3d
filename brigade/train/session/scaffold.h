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

/// Writes the summaries of a step, as `SummarySaverHook` asks for them.
using SummaryFunction =
    std::function<void(summary::SummaryWriter&, std::int64_t step, const StepValues&)>;

/// The pieces of a session that depend on the model (TensorFlow: tf.train.Scaffold). All may be
/// left out.
struct Scaffold {
  /// Gives the first values, only if no checkpoint was restored: to start from given weights, call
  /// `checkpoint::restore_variables` here. Variables have their initializers' values already.
  std::function<void(TrainingState&)> init = {};
  /// Called always, behind `init` or the restore: for what no checkpoint holds.
  std::function<void(TrainingState&)> local_init = {};
  /// Why the training cannot start yet, or nothing. Asked at the start, before `local_init`: a
  /// worker asks until it can; for a chief it is an error.
  std::function<std::optional<std::string>()> not_ready = {};
  /// How the session saves; its directory is the session's `checkpoint_dir`.
  checkpoint::SaverOptions saver = {};
  /// Written at `SessionOptions::save_summaries`. Empty: every value of the step that is a number.
  SummaryFunction summaries = {};
};

}  // namespace brigade::train
