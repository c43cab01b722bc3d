#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "brigade/train/evaluation/checkpoint_evaluation.h"
#include "brigade/train/evaluation/checkpoints_iterator.h"

namespace brigade::train {

struct EvaluationLoopOptions {
  /// The options for each checkpoint. The loop itself uses `cancel` and `environment`, too: when
  /// cancelled, the loop ends immediately and drops the current evaluation.
  EvaluationOptions each = {};
  /// The minimum time from the start of one evaluation to the start of the next.
  std::chrono::milliseconds interval = std::chrono::seconds(60);
  /// How long to wait for a new checkpoint. Unset: no timeout.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Called after a timeout. Empty: the loop ends.
  std::function<AfterTimeout()> timeout_fn = {};
  /// How often to look at the directory.
  std::chrono::milliseconds poll = std::chrono::seconds(1);
  /// At least 1. Unset: no limit.
  std::optional<std::int64_t> max_number_of_evaluations = std::nullopt;
  /// Called after each evaluation.
  std::function<void(const EvaluationReport&)> on_evaluated = {};
};

/// Evaluates each checkpoint that a training, in this or another process, writes into `directory`,
/// until a timeout, the maximum number of evaluations, or a cancellation. Returns the report of the
/// last evaluation, or nothing. A checkpoint that the training removes before it can be read is
/// skipped. See `evaluate_once` and `CheckpointsIterator`. TensorFlow:
/// evaluation.evaluate_repeatedly, slim.evaluation.evaluation_loop.
///
/// Throws as those, and kInvalidArgument for a maximum below 1.
std::optional<EvaluationReport> evaluation_loop(TrainingState& state, const io::Path& directory,
                                                const Evaluation& evaluation,
                                                const EvaluationLoopOptions& options = {});

}  // namespace brigade::train
