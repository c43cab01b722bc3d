#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace brigade::train {

/// One step of training: its mean loss, or nothing once the data is used up.
using UpdateFunction = std::function<std::optional<at::Tensor>()>;

struct DoTrainingOptions {
  /// A report each so many steps, the first one included.
  std::int64_t log_every = 100;
  /// Unset: until the data ends.
  std::optional<std::int64_t> steps = std::nullopt;
  /// What a report is; empty: a line in the log, "Step 100 with loss 0.0781".
  std::function<void(std::int64_t step, double loss)> report = {};
};

struct DoTrainingResult {
  std::int64_t steps = 0;
  /// Unset without a step.
  std::optional<double> first_loss;
  std::optional<double> final_loss;
};

/// Calls `update` until it returns nothing: the plain loop of the tutorials, without checkpoints or
/// summaries. Waits for the devices only where a loss is reported. Throws kInvalidArgument unless
/// `log_every` is positive, and kDataLoss, naming the step, for a reported loss that is not finite.
///
/// Thread-safety: `update` is called on the calling thread.
DoTrainingResult do_training(const UpdateFunction& update, const DoTrainingOptions& options = {});

}  // namespace brigade::train
