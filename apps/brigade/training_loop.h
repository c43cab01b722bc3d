#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/brigade/evaluation_hook.h"
#include "apps/brigade/interrupt.h"
#include "apps/brigade/training_step.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/step_times.h"
#include "brigade/distribute/update_staleness.h"
#include "brigade/input/labeled_example.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/schedule.h"
#include "brigade/ps/client/call_clock.h"
#include "brigade/train/callbacks/progress.h"
#include "brigade/train/session/session.h"

namespace brigade::command {

/// Of the moving averages in a checkpoint.
inline constexpr const char* kAveragesName = "ema";

/// Averages of the model's weights; nothing without the flag.
std::optional<optim::ExponentialMovingAverage> make_averages(const StepFlags& flags,
                                                             const Model& model);

/// What is trained, on what, and for how long.
struct Training {
  TrainingStep step;
  /// Global batches; the training ends with them, or at step `steps`.
  data::Dataset<input::LabeledBatch> batches;
  /// Applied to them on the replicas' devices; null: nothing.
  ReplicaNormalizer normalizer = nullptr;
  std::optional<std::int64_t> steps;
  distribute::InputOptions input = {};
  /// The name under which its slots are saved.
  std::string optimizer;
  /// Of its learning rate; null: constant.
  optim::SchedulePtr schedule = nullptr;
  /// Updated after each step; null: none.
  optim::ExponentialMovingAverage* averages = nullptr;
  /// Checkpoints, summaries and hooks.
  train::SessionOptions session;
  /// One of the hooks, or null. Its time does not count as training.
  std::shared_ptr<EvaluationHook> evaluation;
  /// Ends the strategy's waits for other processes. After a signal it is cancelled when such a
  /// wait, as `calls` knows it, has taken some seconds; a step may compute for longer. Unset: its
  /// waits end by themselves.
  std::optional<concurrency::CancelToken> cancel;
  std::shared_ptr<ps::CallClock> calls;  ///< with `cancel`
  /// Whether a signal ends it after the current step. A worker for which the chief's step waits
  /// continues for some seconds, so that the chief can end its step, and save.
  bool stops_after_step = true;
};

/// The result of a training.
struct TrainingResult {
  std::int64_t steps = 0;            ///< made so far, including earlier processes and all workers
  std::int64_t own_steps = 0;        ///< made by this process
  std::int64_t examples = 0;         ///< trained on so far, including earlier processes
  std::int64_t first_step = 0;       ///< where this process began
  double seconds = 0.0;              ///< of the loop: input, steps, saving, progress; no evaluation
  std::int64_t warmup_steps = 0;     ///< first steps that `examples_per_second` leaves out
  double examples_per_second = 0.0;  ///< after the warm-up, which touches memory first
  double examples_per_second_total = 0.0;
  std::optional<double> final_loss;  ///< mean over the last global batch; unset without a step
  std::optional<int> signal;         ///< what ended it early
  /// [replica]: how the steps after the warm-up spent their time.
  std::vector<distribute::StepTimes> step_times;
  /// [stage] of a pipeline: the most micro-batches in a step that it kept.
  std::vector<int> peak_micro_batches;
  /// Of this process's updates; unset if they cannot be stale.
  std::optional<distribute::UpdateStaleness> staleness;
};

/// Trains from the newest complete checkpoint, if there is one. Ends at the end of the data, at the
/// last step, or after the step in which a signal came; then saves the state.
TrainingResult run_training(const Training& training, train::Progress& progress,
                            const Interrupt& interrupt);

}  // namespace brigade::command
