#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "brigade/base/clock.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/slim/train_op.h"

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

struct TrainOptions {
  /// The global step at which training ends: a training that starts at step 300 makes 700 steps
  /// towards 1000, and none if it is there already. Unset: until the data ends.
  std::optional<std::int64_t> number_of_steps = std::nullopt;
  /// A log line at each global step that is a multiple of this; 0: none. Reading the loss for it
  /// waits for the device.
  std::int64_t log_every_n_steps = 1;
  /// What a step is. Empty: `train_step`.
  TrainStepFunction train_step_fn = {};
  /// How often one step is tried again after kAborted or kUnavailable before its error is thrown.
  /// (Slim tries for ever.)
  int max_retries = 3;
  /// Ends the training, as the end of the data does, behind the step that is under way.
  concurrency::CancelToken cancel = {};
  /// What the seconds of a step are measured by; null: the machine's clock.
  const base::Clock* clock = nullptr;
};

/// Calls the train op until `number_of_steps`, the end of its data, `should_stop` or `cancel`, and
/// logs on the way:
///
///   global step 10: loss = 0.1234 (0.012 sec/step)
///
/// Returns the loss of the last step; nothing if there was no step to make. Without checkpoints and
/// summaries. TensorFlow: slim.learning.train.
///
/// Whether a loss may be other than finite is the train op's to say (`CheckNumerics`). Throws
/// kInvalidArgument for options that cannot work, and what the train op throws, after `max_retries`
/// where trying again may help.
std::optional<double> train(const TrainOp& train_op, const TrainOptions& options = {});

}  // namespace brigade::slim::learning
