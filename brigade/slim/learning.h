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

/// Whether a training is to end behind a step.
enum class ShouldStop { kNo, kYes };

/// What one step came to.
struct TrainStepResult {
  /// The total loss; unset where the data was used up.
  std::optional<at::Tensor> loss = std::nullopt;
  ShouldStop should_stop = ShouldStop::kNo;
};

using TrainStepFunction = std::function<TrainStepResult(const TrainOp& train_op)>;

/// One step: the train op, and on. What `train` calls if it is told nothing else; a function of
/// your own calls it for the step itself. TensorFlow: slim.learning.train_step.
TrainStepResult train_step(const TrainOp& train_op);

/// Whether an optimizer applies gradients only when all workers' are there. Such workers must start
/// together.
enum class SyncOptimizer { kNo, kYes };

/// Defaults are Slim's. Times may be given in any unit: `std::chrono::seconds(60)`.
struct TrainOptions {
  /// Where checkpoints and event files go, and whence a training goes on that was interrupted:
  /// with the very next batch, if the train op was made of a dataset. Empty: nothing is saved.
  io::Path logdir = {};
  /// The global step at which training ends: a training that starts at step 300 makes 700 steps
  /// towards 1000, and none if it is there already. Unset: until the data ends.
  std::optional<std::int64_t> number_of_steps = std::nullopt;
  /// A log line at each global step that is a multiple of this; 0: none. Reading the loss for it
  /// waits for the device.
  std::int64_t log_every_n_steps = 1;
  /// What a step is. Empty: `train_step`.
  TrainStepFunction train_step_fn = {};
  /// Gives the first values, unless `logdir` has a checkpoint: `assign_from_checkpoint_fn(...)`.
  std::function<void(train::TrainingState&)> init_fn = {};
  /// How often summaries and `global_step/sec` are written. Unset: never.
  std::optional<std::chrono::milliseconds> save_summaries_secs = std::chrono::seconds(600);
  /// Writes them. Empty: "loss", the total loss.
  train::SummaryFunction summary_op = {};
  /// How often a checkpoint is written, besides those at the start and the end. Unset: none at all.
  std::optional<std::chrono::milliseconds> save_interval_secs = std::chrono::seconds(600);
  /// How; its directory is `logdir`.
  checkpoint::SaverOptions saver = {};
  /// Called around each step, behind the built-in ones; the step's value is "loss".
  std::vector<std::shared_ptr<train::SessionRunHook>> hooks = {};
  /// Adds to what a checkpoint holds: positions of sources of one's own, averages of weights.
  std::function<void(train::TrainingState&)> add_to_state = {};
  /// Slim: is_chief.
  train::SessionRole role = train::SessionRole::kChief;
  /// The global step that a worker waits for before its first. Slim: startup_delay_steps.
  std::int64_t startup_delay_steps = 0;
  /// With kYes `startup_delay_steps` must be 0. What such an optimizer needs is among its hooks.
  SyncOptimizer sync_optimizer = SyncOptimizer::kNo;
  /// How often one step is tried again after kAborted or kUnavailable before its error is thrown:
  /// where checkpoints are saved, from the last one, and else with the same batch. (Slim tries for
  /// ever.)
  int max_retries = 3;
  /// Ends the training, as the end of the data does, behind the step that is under way.
  concurrency::CancelToken cancel = {};
  /// What the seconds of a step are measured by; null: the machine's clock.
  const base::Clock* clock = nullptr;
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// Calls the train op until `number_of_steps`, the end of its data, `should_stop` or `cancel`, and
/// logs on the way:
///
///   global step 10: loss = 0.1234 (0.012 sec/step)
///
/// Returns the loss of the last step; nothing if there was no step to make. Steps are run by a
/// `train::MonitoredTrainingSession`, which saves, restores and writes summaries in `logdir`: all
/// variables that were made by name in the strategy, the optimizer, the global step and the place
/// in the data. TensorFlow: slim.learning.train.
///
/// Whether a loss may be other than finite is the train op's to say (`CheckNumerics`). Throws
/// kInvalidArgument for options that cannot work, what the train op throws, after `max_retries`
/// where trying again may help, and what the session throws.
std::optional<double> train(const TrainOp& train_op, const TrainOptions& options = {});

}  // namespace brigade::slim::learning
