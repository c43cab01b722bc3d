#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"
#include "brigade/variables/variable.h"

namespace brigade::train {

/// What a fit has before it.
struct FitPlan {
  std::int64_t initial_epoch = 0;
  std::int64_t epochs = 1;
  /// If it is known.
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
};

/// What callbacks see of the `fit` that calls them, and what they may change. Valid until it
/// returns.
///
/// Thread-safety: the thread of `fit`.
class FitContext {
 public:
  FitContext(FitPlan plan, TrainingState& state, const distribute::Optimizer& optimizer,
             std::span<const variables::Variable> variables)
      : plan_(plan), state_(state), optimizer_(optimizer), variables_(variables) {}

  const FitPlan& plan() const { return plan_; }
  /// From 0.
  std::int64_t epoch() const { return epoch_; }
  /// Batches of this epoch that are behind us; in `on_train_batch_end` the one at hand is.
  std::int64_t batches() const { return batches_; }
  /// Examples of this epoch that this call has seen.
  std::int64_t examples() const { return examples_; }
  /// The last batch's own loss, "loss". Reading it waits for the devices.
  const StepValues& step_values() const { return step_values_; }

  /// An epoch's figures, complete in `on_epoch_end`, the last epoch's in `on_train_end`, those of a
  /// validation in `on_test_end`.
  const Logs& logs() const { return logs_; }
  /// Adds a figure to the epoch's: callbacks behind this one and the history see it.
  void add_log(const std::string& name, double value) { logs_[name] = value; }

  double learning_rate() const { return optimizer_.learning_rate(); }
  void set_learning_rate(double rate) { optimizer_.set_learning_rate(rate); }

  /// Ends training behind this batch, and with it the epoch. The first reason is kept.
  void stop(std::string_view reason) {
    if (stop_reason_.empty()) stop_reason_ = reason;
  }
  bool should_stop() const { return !stop_reason_.empty(); }
  const std::string& stop_reason() const { return stop_reason_; }
  /// In `on_train_end`: whether epochs are left because the session was asked to stop, as by a
  /// signal. Whoever fits again goes on.
  bool is_interrupted() const { return is_interrupted_; }

  /// Puts what a callback remembers into every checkpoint: `checkpointable` as for `TrainingState`, its name
  /// made unique, and skipped where a checkpoint lacks it. In `on_train_begin`, before anything is
  /// restored. The callback must outlive the fit, which holds it.
  void add_checkpointable(Checkpointable checkpointable);
  /// Everything that a checkpoint holds; its global step counts on from fit to fit.
  TrainingState& state() const { return state_; }
  /// The model's.
  std::span<const variables::Variable> variables() const { return variables_; }

 private:
  friend class FitLoop;
  const FitPlan plan_;
  TrainingState& state_;
  const distribute::Optimizer& optimizer_;
  std::span<const variables::Variable> variables_;
  std::int64_t epoch_ = 0, batches_ = 0, examples_ = 0;
  StepValues step_values_;
  Logs logs_;
  std::string stop_reason_;
  bool is_interrupted_ = false;
  std::map<std::string, int> checkpointable_names_;  // and how often each was given
};

}  // namespace brigade::train
