#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "apps/brigade/interrupt.h"
#include "apps/brigade/report.h"
#include "apps/brigade/train_flags.h"
#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"

namespace brigade::command {

/// What surrounds a training: it may be alone in its process, or one of several.
struct TrainingSetting {
  /// Returns whether the training should end. Called on the training's thread.
  using AfterEpoch = std::function<bool(std::int64_t epoch, const train::EvaluationResult& result)>;

  /// Progress and warnings, human-readable.
  std::ostream& log;
  /// Takes the report: as JSON, and a summary of its result.
  std::function<void(const Json& report, const std::string& summary)> write;
  /// The training split, shuffled and augmented, instead of the one that the flags would load:
  /// with the same elements.
  std::optional<data::Dataset<input::LabeledExample>> examples = std::nullopt;
  /// Called after each epoch with an evaluation on the test split. Unset: there is none.
  AfterEpoch after_epoch = {};
};

/// A training in a task that trains: prepares it, resumes or begins it, and saves and reports the
/// result. Returns the exit code. Throws UsageError before the training begins, and the training's
/// errors. `setting` is borrowed. Thread-safety: several trainings may run at the same time if they
/// have different devices and model directories, and an Interrupt outlives them.
int run_training_task(const TrainFlags& flags, const TrainingSetting& setting);

}  // namespace brigade::command
