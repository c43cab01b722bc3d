#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/strategy.h"
#include "brigade/metrics/metric.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"
#include "brigade/train/evaluation/checkpoints_iterator.h"
#include "brigade/variables/variable.h"

/// Evaluation of checkpoints with the names of TF-Slim. It is documented in
/// `train/evaluation/checkpoint_evaluation.h` and `train/evaluation/checkpoints_iterator.h`.
namespace brigade::slim::evaluation {

using train::AfterTimeout;
using train::EvaluationReport;
using train::StepValues;

/// Options of `evaluate_once`: what is restored and computed, and what happens around it.
struct EvalOptions {
  /// The number of calls of `eval_op`; fewer if its data ends before.
  std::int64_t num_evals = 1;
  /// Called after the restore: creates the iterator over the data.
  std::function<void()> initial_op = {};
  /// Evaluates one batch; returns nothing at the end of the data. Empty: `final_op` computes
  /// everything.
  std::function<std::optional<StepValues>()> eval_op = {};
  /// Metrics over all batches: they are reset before the first batch, and their results have their
  /// names. They must outlive the evaluation. Slim: names_to_updates, names_to_values.
  std::vector<const metrics::Metric*> metrics = {};
  /// Computes further results after the last batch.
  std::function<StepValues()> final_op = {};
  /// The variables to restore. Unset: all global variables that were created by name in the
  /// strategy.
  std::optional<std::vector<variables::Variable>> variables_to_restore = std::nullopt;
  /// Other names in the checkpoint, and what to do about missing variables.
  train::TrainingRestoreOptions restore = {};
  /// Called around the batches, as around the steps of a session.
  std::vector<train::HookPtr> hooks = {};
  /// Cancels the evaluation at the next batch.
  concurrency::CancelToken cancel = {};
  /// The file system and the clock; tests replace them.
  train::SessionEnvironment environment = {};
};

/// Evaluates one checkpoint, or the newest complete one in a directory. Writes the results to
/// `logdir` as summaries at its global step, unless `logdir` is empty. TensorFlow:
/// slim.evaluation.evaluate_once. Throws as `train::evaluate_once`, and kInvalidArgument if
/// `num_evals` is below 1 or there is nothing to restore.
EvaluationReport evaluate_once(distribute::Strategy& strategy, const io::Path& checkpoint_path,
                               const io::Path& logdir, const EvalOptions& options);

/// Options of `evaluation_loop`, with Slim's names. Times may be in any unit.
struct EvalLoopOptions {
  /// The options for each checkpoint.
  EvalOptions evaluation = {};
  /// The minimum time from the start of one evaluation to the start of the next.
  std::chrono::milliseconds eval_interval_secs = std::chrono::seconds(60);
  /// At least 1. Unset: no limit.
  std::optional<std::int64_t> max_number_of_evaluations = std::nullopt;
  /// How long to wait for a new checkpoint. Unset: no timeout.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// Called after a timeout: may check whether the training has ended. Empty: the loop ends.
  std::function<AfterTimeout()> timeout_fn = {};
  /// How often to look at the directory.
  std::chrono::milliseconds seconds_to_sleep = std::chrono::seconds(1);
};

/// Evaluates each new checkpoint in `checkpoint_dir`; returns the report of the last evaluation, or
/// nothing. TensorFlow: slim.evaluation.evaluation_loop. Throws as `train::evaluation_loop` and
/// `evaluate_once`.
std::optional<EvaluationReport> evaluation_loop(distribute::Strategy& strategy,
                                                const io::Path& checkpoint_dir,
                                                const io::Path& logdir,
                                                const EvalLoopOptions& options);

/// TensorFlow: slim.evaluation.wait_for_new_checkpoint and checkpoints_iterator.
using train::CheckpointsIterator;
using train::wait_for_new_checkpoint;
inline CheckpointsIterator checkpoints_iterator(
    const io::Path& checkpoint_dir, const train::CheckpointsIteratorOptions& options = {}) {
  return CheckpointsIterator(checkpoint_dir, options);
}

}  // namespace brigade::slim::evaluation
