#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/hooks/hook.h"
#include "brigade/metrics/metric.h"
#include "brigade/train/session/session.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// How a checkpoint is evaluated, whatever computes it: the same for one checkpoint and for all
/// that a training writes.
struct Evaluation {
  /// Called when the values are restored, before the first batch: puts models into evaluation mode,
  /// begins a walk over the data. TensorFlow: initial_op.
  std::function<void()> begin = {};
  /// One batch; nothing at the end of the data. Hooks see what it returns. Empty: everything is
  /// left to `final_values`. TensorFlow: eval_op.
  MonitoredTrainingSession::StepFunction step = {};
  /// Reset before the first batch; their results are among those of the evaluation, by their names.
  /// They must outlive it.
  std::vector<const metrics::Metric*> metrics = {};
  /// Further results, when all batches are seen. TensorFlow: final_op.
  std::function<StepValues()> final_values = {};
};

struct EvaluationOptions {
  /// Which variables are restored, and under which names.
  TrainingRestoreOptions restore = {};
  /// Called around the batches as around the steps of a session, before the results are computed.
  /// The global step is the checkpoint's all the time. `StopAfterNEvalsHook` limits the batches.
  std::vector<std::shared_ptr<SessionRunHook>> hooks = {};
  /// Where the results go as summaries, at the checkpoint's global step: `<dir>/eval`, say. Empty:
  /// nowhere.
  io::Path summary_dir = {};
  /// Gives the evaluation up at the next batch.
  concurrency::CancelToken cancel = {};
  SessionEnvironment environment = {};
};

/// What came out.
struct EvaluationReport {
  io::Path checkpoint;
  std::int64_t step = 0;     ///< the checkpoint's global step
  std::int64_t batches = 0;  ///< seen
  Logs results;              ///< by name
};

/// Restores `checkpoint` into what `state` knows, walks over the data and returns the figures; they
/// are those that the model had when it was saved, on any number of replicas:
///
///   TrainingState state(strategy);   // of the variables alone
///   state.add_model(model);
///   const auto result = evaluate_once(state, checkpoint, {
///       .begin = [&] { model.eval(); batches.emplace(test.iterator()); },
///       .step = [&] { return test_batch(); },
///       .metrics = {&loss, &accuracy}});
///
/// `state` needs no optimizer and no iterators: what it does not know is not restored. Checkpoints
/// that hold nothing but variables will do. Steps do not count, and no graph is built. TensorFlow:
/// evaluation.evaluate_once.
///
/// Throws kInvalidArgument for an evaluation of nothing, and for two results of one name;
/// kCancelled; what `TrainingState::restore`, the functions and the hooks throw.
EvaluationReport evaluate_once(TrainingState& state, const checkpoint::Checkpoint& checkpoint,
                        const Evaluation& evaluation, const EvaluationOptions& options = {});
/// Of a checkpoint's folder, or of the newest whole one in a directory. Throws kNotFound if there
/// is none.
EvaluationReport evaluate_once(TrainingState& state, const io::Path& checkpoint_path,
                        const Evaluation& evaluation, const EvaluationOptions& options = {});

/// The results, by name, at the checkpoint's global step; they are in the file when it returns.
void write_results(summary::SummaryWriter& summaries, const EvaluationReport& evaluated);

}  // namespace brigade::train
