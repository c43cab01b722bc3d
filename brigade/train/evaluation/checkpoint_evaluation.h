#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/metrics/metric.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/callbacks/history.h"
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
  SessionEnvironment environment = {};
};

/// The results of an evaluation.
struct EvaluationReport {
  io::Path checkpoint;
  std::int64_t step = 0;     ///< the checkpoint's global step
  std::int64_t batches = 0;  ///< number of evaluated batches
  Logs results;              ///< by name
};

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

}  // namespace brigade::train
