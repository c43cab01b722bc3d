#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/strategy.h"
#include "brigade/train/evaluation/checkpoints_iterator.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"
#include "brigade/metrics/metric.h"
#include "brigade/variables/variable.h"

/// Evaluating checkpoints under the names that TF-Slim has for it. What it does is said in
/// `train/evaluation.h`, `train/evaluation_loop.h` and `train/checkpoints_iterator.h`.
namespace brigade::slim::evaluation {

using train::AfterTimeout;
using train::EvaluationReport;
using train::StepValues;

struct EvaluationOptions {
  /// Calls of `eval_op`; fewer if its data ends before.
  std::int64_t num_evals = 1;
  /// Called behind the restore: begins a walk over the data.
  std::function<void()> initial_op = {};
  /// Evaluates one batch; nothing at the end of the data. Empty: everything is left to `final_op`.
  std::function<std::optional<StepValues>()> eval_op = {};
  /// Figures over all batches: reset before the first, among the results by their names. They must
  /// outlive the evaluation. Slim: names_to_updates, names_to_values.
  std::vector<const metrics::Metric*> metrics = {};
  /// Further results, when all batches are seen.
  std::function<StepValues()> final_op = {};
  /// What is restored. Unset: all global variables that were made by name in the strategy.
  std::optional<std::vector<variables::Variable>> variables_to_restore = std::nullopt;
  /// Other names in the checkpoint, missing variables.
  train::TrainingRestoreOptions restore = {};
  std::vector<std::shared_ptr<train::SessionRunHook>> hooks = {};
  concurrency::CancelToken cancel = {};
  train::SessionEnvironment environment = {};
};

/// Evaluates one checkpoint, or the newest whole one of a directory; the results are written to
/// `logdir` as summaries at its global step, unless that is empty. TensorFlow:
/// slim.evaluation.evaluate_once. Throws as `train::evaluate_once`, and kInvalidArgument for less
/// than one of `num_evals` and if there is nothing to restore.
EvaluationReport evaluate_once(distribute::Strategy& strategy, const io::Path& checkpoint_path,
                        const io::Path& logdir, const EvaluationOptions& options);

struct EvaluationLoopOptions {
  /// Of each checkpoint.
  EvaluationOptions evaluation = {};
  std::chrono::milliseconds eval_interval_secs = std::chrono::seconds(60);
  std::optional<std::int64_t> max_number_of_evaluations = std::nullopt;
  /// How long a new checkpoint is waited for. Unset: until `evaluation.cancel`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::function<AfterTimeout()> timeout_fn = {};
  /// How often the directory is looked at.
  std::chrono::milliseconds seconds_to_sleep = std::chrono::seconds(1);
};

/// Evaluates each new checkpoint of `checkpoint_dir`; the last evaluation, or nothing. TensorFlow:
/// slim.evaluation.evaluation_loop. Throws as `train::evaluation_loop` and `evaluate_once`.
std::optional<EvaluationReport> evaluation_loop(distribute::Strategy& strategy,
                                         const io::Path& checkpoint_dir, const io::Path& logdir,
                                         const EvaluationLoopOptions& options);

struct WaitOptions {
  std::chrono::milliseconds seconds_to_sleep = std::chrono::seconds(1);
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  concurrency::CancelToken cancel = {};
  train::SessionEnvironment environment = {};
};

/// As `train::wait_for_new_checkpoint`. TensorFlow: slim.evaluation.wait_for_new_checkpoint.
std::optional<checkpoint::Checkpoint> wait_for_new_checkpoint(
    const io::Path& checkpoint_dir,
    const std::optional<checkpoint::Checkpoint>& last_checkpoint = std::nullopt,
    const WaitOptions& options = {});

struct CheckpointsIteratorOptions {
  std::chrono::milliseconds min_interval_secs{0};
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  std::function<AfterTimeout()> timeout_fn = {};
  std::chrono::milliseconds seconds_to_sleep = std::chrono::seconds(1);
  concurrency::CancelToken cancel = {};
  train::SessionEnvironment environment = {};
};

/// A `train::CheckpointsIterator`. TensorFlow: slim.evaluation.checkpoints_iterator.
train::CheckpointsIterator checkpoints_iterator(const io::Path& checkpoint_dir,
                                                const CheckpointsIteratorOptions& options = {});

}  // namespace brigade::slim::evaluation
