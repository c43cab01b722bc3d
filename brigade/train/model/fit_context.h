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

/// The epochs and steps of a `fit`.
struct FitPlan {
  std::int64_t initial_epoch = 0;
  std::int64_t epochs = 1;
  /// If known.
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
};

/// The interface of a running `fit` for its callbacks. Valid until `fit` returns.
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
  /// The number of completed batches of this epoch; in `on_train_batch_end` it includes the current
  /// batch.
  std::int64_t batches() const { return batches_; }
  /// In `on_train_batch_end`: the number of batches since the call before; 1, unless
  /// `FitOptions::steps_per_execution` is set.
  std::int64_t new_batches() const { return new_batches_; }
  /// The number of examples of this epoch that this call of `fit` has processed.
  std::int64_t examples() const { return examples_; }
  /// The values of the last batch: "loss", of a model with several losses also "main_loss", ..., or
  /// what a `CustomTrainStep` returned. Reading one waits for the devices.
  const StepValues& step_values() const { return step_values_; }

  /// The metrics of the epoch: complete in `on_epoch_end`, of the last epoch in `on_train_end`, of
  /// the validation in `on_test_end`.
  const Logs& logs() const { return logs_; }
  /// Adds a value to the metrics of the epoch: the history and the callbacks after this one see it.
  void add_log(const std::string& name, double value) { logs_[name] = value; }

  double learning_rate() const { return optimizer_.learning_rate(); }
  void set_learning_rate(double rate) { optimizer_.set_learning_rate(rate); }

  /// Ends the training, and the epoch, after this batch. The first reason is kept. Of workers that
  /// train together every one must call it after the same batch, as where losses or metrics decide,
  /// which are equal in all; one worker alone cancels `FitOptions::session.cancel`.
  void stop(std::string_view reason) {
    if (stop_reason_.empty()) stop_reason_ = reason;
  }
  bool should_stop() const { return !stop_reason_.empty(); }
  const std::string& stop_reason() const { return stop_reason_; }
  /// In `on_train_end`: whether epochs are left because the session was asked to stop, for example
  /// by a signal. Another `fit` may resume.
  bool is_interrupted() const { return is_interrupted_; }

  /// Adds the state of a callback to every checkpoint, as `TrainingState::add`: its name is made
  /// unique, and a checkpoint without it leaves it unchanged. Call it in `on_train_begin`, before
  /// anything is restored. The callback lives as long as `fit`.
  void add_checkpointable(Checkpointable checkpointable);
  /// The contents of checkpoints; the global step counts over all fits.
  TrainingState& state() const { return state_; }
  /// The variables of the model.
  std::span<const variables::Variable> variables() const { return variables_; }

 private:
  friend class FitLoop;
  const FitPlan plan_;
  TrainingState& state_;
  const distribute::Optimizer& optimizer_;
  std::span<const variables::Variable> variables_;
  std::int64_t epoch_ = 0, batches_ = 0, new_batches_ = 0, examples_ = 0;
  StepValues step_values_;
  Logs logs_;
  std::string stop_reason_;
  bool is_interrupted_ = false;
  std::map<std::string, int> checkpointable_names_;  // and how often each was used
};

}  // namespace brigade::train
