#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "brigade/train/callbacks/history.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

/// The steps of a `Model::fit`; for the sources of `Model` only.
namespace brigade::train::internal {

/// A step that was made.
struct FitStep {
  StepValues values;  ///< "loss"
  std::int64_t examples = 0;
};

/// Makes the steps of a fit and its validations: in this process, or in workers that
/// this process coordinates (`CoordinatedSteps`).
///
/// Thread-safety: one thread.
class FitSteps {
 public:
  struct Request {
    /// How many steps the epoch still has, with this one; unset: as many as the data.
    std::optional<std::int64_t> left = std::nullopt;
    /// Whether nobody wants the step any longer; asked while it is waited for.
    std::function<bool()> should_stop = {};
  };

  virtual ~FitSteps() = default;

  /// Adds what checkpoints have of the data.
  virtual void add_to(TrainingState& state) = 0;
  /// The number of steps in a pass over the data, if it is known and finite.
  virtual std::optional<std::int64_t> pass_length() const = 0;
  /// Whether this pass over the data has another batch.
  virtual bool has_next() = 0;
  /// Makes a step, and adds it to the metrics. Nothing at the end of the data, and if it should
  /// stop.
  virtual std::optional<FitStep> next(const Request& request) = 0;
  /// The epoch ends before its last step.
  virtual void stop_early() = 0;
  /// The steps of the epoch were made: metrics and variables are to be complete.
  virtual void complete_epoch() = 0;
  /// The metrics over the validation data, which resets the metrics. Nothing without such data, and
  /// if it should stop while others validate; then the metrics are as before.
  virtual std::optional<Logs> validate(const std::function<bool()>& should_stop) = 0;
  virtual void start_next_pass() = 0;
};

}  // namespace brigade::train::internal
