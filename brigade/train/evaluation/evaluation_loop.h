#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "brigade/train/evaluation/checkpoints_iterator.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"

namespace brigade::train {

struct EvaluationLoopOptions {
  /// For each checkpoint. Its `cancel` and `environment` are the loop's, too: cancelled, the loop
  /// ends at once, and an evaluation under way is dropped.
  EvaluationOptions each = {};
  /// From the start of one evaluation to that of the next.
  std::chrono::milliseconds interval = std::chrono::seconds(60);
  /// How long a new checkpoint is waited for. Unset: until `each.cancel`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Asked when the time is up. Empty: the loop ends.
  std::function<AfterTimeout()> timeout_fn = {};
  /// How often the directory is looked at.
  std::chrono::milliseconds poll = std::chrono::seconds(1);
  /// At least 1. Unset: no limit.
  std::optional<std::int64_t> max_number_of_evaluations = std::nullopt;
  /// Called behind each evaluation.
  std::function<void(const EvaluationReport&)> on_evaluated = {};
};

/// Evaluates each checkpoint that a training writes into `directory`, in this or another process,
/// until none comes in time, there were enough, or it is cancelled. Returns the last evaluation, or
/// nothing. One that the training removed before it could be read is passed over. See
/// `evaluate_once` and `CheckpointsIterator`. TensorFlow: evaluation.evaluate_repeatedly,
/// slim.evaluation.evaluation_loop.
///
/// Throws as those, and for a maximum below 1.
std::optional<EvaluationReport> evaluation_loop(TrainingState& state, const io::Path& directory,
                                         const Evaluation& evaluation,
                                         const EvaluationLoopOptions& options = {});

}  // namespace brigade::train
