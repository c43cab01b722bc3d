#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/metrics/metric.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/evaluation/checkpoints_iterator.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/train/session/session.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// How to evaluate a checkpoint: used for one checkpoint (`evaluate_once`) and for all checkpoints
/// of a training (`evaluation_loop`).
struct Evaluation {
  /// Called after the restore, before the first batch: puts models into evaluation mode, creates
  /// the iterator over the data. TensorFlow: initial_op.
  std::function<void()> begin = {};
  /// Evaluates one batch; returns nothing at the end of the data. Hooks see the returned values.
  /// Empty: `final_values` computes everything. TensorFlow: eval_op.
  MonitoredTrainingSession::StepFunction step = {};
  /// Reset before the first batch; their results are results of the evaluation, under their names.
  /// They must outlive the evaluation.
  std::vector<const metrics::Metric*> metrics = {};
  /// Computes further results after the last batch. TensorFlow: final_op.
  std::function<StepValues()> final_values = {};
};

/// Options of `evaluate_once`: what is restored, and what happens around the evaluation.
struct EvaluationOptions {
  /// Which variables to restore, and from which names.
  TrainingRestoreOptions restore = {};
  /// Called around the batches as around the steps of a session. The global step is always that of
  /// the checkpoint. `StopAfterNEvalsHook` limits the batches.
  std::vector<HookPtr> hooks = {};
  /// The directory for summaries of the results at the checkpoint's global step, for example
  /// `<dir>/eval`. Empty: none are written.
  io::Path summary_dir = {};
  /// Cancels the evaluation at the next batch.
  concurrency::CancelToken cancel = {};
  /// The file system and the clock; tests replace them.
  SessionEnvironment environment = {};
};

/// The results of an evaluation.
struct EvaluationReport {
  io::Path checkpoint;
  std::int64_t step = 0;     ///< the checkpoint's global step
  std::int64_t batches = 0;  ///< number of evaluated batches
  Logs results;              ///< by name
};

/// Opens a checkpoint, or the newest complete one in a directory; broken ones are skipped with a
/// warning. Throws kNotFound if there is none, and as `Checkpoint::open`.
checkpoint::Checkpoint open_checkpoint(const std::shared_ptr<const io::FileSystem>& files,
                                       const io::Path& path);

/// Restores `checkpoint` into `state`, evaluates all batches and returns the results. They are
/// those of the model when it was saved, on any number of replicas:
///
///   TrainingState state(strategy);   // of the variables alone
///   state.add_model(model);
///   const auto result = evaluate_once(state, checkpoint, {
///       .begin = [&] { model.eval(); batches.emplace(test.iterator()); },
///       .step = [&] { return test_batch(); },
///       .metrics = {&loss, &accuracy}});
///
/// `state` needs no optimizer and no iterators: only what was added to it is restored. The
/// checkpoint may contain variables only. The global step does not change, and no autograd graph is
/// built. TensorFlow: evaluation.evaluate_once.
///
/// Throws kInvalidArgument for an evaluation without functions, and for two results with the same
/// name; kCancelled; the errors of `TrainingState::restore`, of the functions and of the hooks.
EvaluationReport evaluate_once(TrainingState& state, const checkpoint::Checkpoint& checkpoint,
                               const Evaluation& evaluation, const EvaluationOptions& options = {});
/// `checkpoint_path` is a checkpoint, or a directory whose newest complete checkpoint is evaluated.
/// Throws kNotFound if there is none.
EvaluationReport evaluate_once(TrainingState& state, const io::Path& checkpoint_path,
                               const Evaluation& evaluation, const EvaluationOptions& options = {});

/// Writes the results, by name, at the checkpoint's global step, and flushes the file.
void write_results(summary::SummaryWriter& summaries, const EvaluationReport& evaluated);

/// Options of `evaluation_loop`: those of each evaluation, which checkpoints are evaluated, and
/// when the loop ends.
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
