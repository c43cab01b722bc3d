#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/file_system.h"
#include "brigade/slim/train_op.h"
#include "brigade/train/session/session.h"

namespace brigade::slim::learning {

/// The result of one step.
struct TrainStepResult {
  /// The total loss; unset at the end of the data.
  std::optional<at::Tensor> loss = std::nullopt;
  /// Whether the training ends after this step; of workers with collectives after the next, unless
  /// `requested_by` says that the result is equal in all of them.
  bool should_stop = false;
  /// Who decided `should_stop`: kEveryWorker if all workers decide alike.
  train::RequestedBy requested_by = train::RequestedBy::kThisWorker;
};

/// Makes one step, and may end the training: `TrainOptions::train_step_fn`.
using TrainStepFunction = std::function<TrainStepResult(const TrainOp& train_op)>;

/// One step: calls the train op, and continues. The default of `TrainOptions::train_step_fn`; your
/// own function calls it for the step itself. TensorFlow: slim.learning.train_step.
TrainStepResult train_step(const TrainOp& train_op);

/// The defaults are Slim's. Times may be in any unit: `std::chrono::seconds(60)`.
struct TrainOptions {
  /// The directory of checkpoints and event files, from which an interrupted training resumes: with
  /// the next batch, if the train op was created from a dataset. Empty: nothing is saved.
  io::Path logdir = {};
  /// The global step at which the training ends: with 1000, a training that starts at step 300
  /// makes 700 steps, and one that starts at step 1000 makes none. Unset: until the end of the
  /// data.
  std::optional<std::int64_t> number_of_steps = std::nullopt;
  /// Logs a line at each global step that is a multiple of this; 0: never. Reading the loss waits
  /// for the device.
  std::int64_t log_every_n_steps = 1;
  /// Makes a step. Empty: `train_step`.
  TrainStepFunction train_step_fn = {};
  /// Sets the initial values, unless `logdir` has a checkpoint: `assign_from_checkpoint_fn(...)`.
  std::function<void(train::TrainingState&)> init_fn = {};
  /// How often to write summaries and `global_step/sec`. Unset: never.
  std::optional<std::chrono::milliseconds> save_summaries_secs = std::chrono::seconds(600);
  /// Writes the summaries. Empty: writes "loss", the total loss.
  train::SummaryFunction summary_op = {};
  /// How often to save a checkpoint, in addition to those at the start and the end. Unset: none are
  /// saved.
  std::optional<std::chrono::milliseconds> save_interval_secs = std::chrono::seconds(600);
  /// How to save; its directory is set to `logdir`.
  checkpoint::SaverOptions saver = {};
  /// Called around each step, after the built-in hooks; the value of the step is "loss".
  std::vector<train::HookPtr> hooks = {};
  /// Adds state to checkpoints: positions of custom data sources, averages of weights.
  std::function<void(train::TrainingState&)> add_to_state = {};
  /// Slim: is_chief.
  train::SessionRole role = train::SessionRole::kChief;
  /// The global step that a worker waits for before its first step. Without effect under a strategy
  /// whose workers share collectives; must be 0 with parameter servers in UpdateMode::kSync, as
  /// with `sync_optimizer`. Slim: startup_delay_steps.
  std::int64_t startup_delay_steps = 0;
  /// Whether the optimizer waits for the gradients of all workers before it applies them, as
  /// in TF-Slim; here the strategy decides that (`ps::UpdateMode::kSync`,
  /// `ps::SyncReplicasOptimizer`), and one that applies each worker's gradients when they arrive is
  /// refused. Such workers must start together: `startup_delay_steps` must be 0. No hook is needed.
  /// Slim: sync_optimizer.
  bool sync_optimizer = false;
  /// How often a step is retried after a retryable error (`train::is_retryable`) before the error
  /// is thrown: from the last checkpoint if checkpoints are saved, else with the same batch. (Slim
  /// has no limit.) Never with parameter servers, which may have applied the step's gradients;
  /// calls to them are repeated in any case.
  int max_retries = 3;
  /// Ends the training after the current step, like the end of the data.
  concurrency::CancelToken cancel = {};
  /// Measures the seconds of a step; null: the system clock.
  const base::Clock* clock = nullptr;
  /// The file system of `logdir`.
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// Calls the train op until `number_of_steps`, the end of its data, `should_stop` or `cancel`, and
/// logs:
///
///   global step 10: loss = 0.1234 (0.012 sec/step)
///
/// Returns the loss of the last step, or nothing if there was no step. A
/// `train::MonitoredTrainingSession` runs the steps, writes summaries to `logdir`, and saves and
/// restores there all variables that were created by name in the strategy, the optimizer, the
/// global step and the position in the data. TensorFlow: slim.learning.train.
///
/// The train op decides whether a loss must be finite (`TrainOpOptions::check_numerics`). Throws
/// kInvalidArgument for invalid options, the errors of the train op (after `max_retries` if a retry
/// may help), and the errors of the session.
std::optional<double> train(const TrainOp& train_op, const TrainOptions& options = {});

}  // namespace brigade::slim::learning
