#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace brigade::train {

/// One training step: returns its mean loss, or nothing at the end of the data.
using UpdateFunction = std::function<std::optional<at::Tensor>()>;

struct DoTrainingOptions {
  /// The number of steps from one report to the next; the first step is reported.
  std::int64_t log_every = 100;
  /// The maximum number of steps. Unset: until the end of the data.
  std::optional<std::int64_t> steps = std::nullopt;
  /// Called for each report. Empty: writes a line to the log, "Step 100 with loss 0.0781".
  std::function<void(std::int64_t step, double loss)> report = {};
};

struct DoTrainingResult {
  std::int64_t steps = 0;
  /// Unset if there was no step.
  std::optional<double> first_loss;
  std::optional<double> final_loss;
};

/// Calls `update` until it returns nothing: the plain training loop of tutorials, without
/// checkpoints and summaries. Waits for the devices only when a loss is reported. Throws
/// kInvalidArgument unless `log_every` is positive, and kDataLoss, with the step, for a reported
/// loss that is not finite.
///
/// Thread-safety: `update` is called on the calling thread.
DoTrainingResult do_training(const UpdateFunction& update, const DoTrainingOptions& options = {});

}  // namespace brigade::train
