#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/progress.h"
#include "brigade/train/model/labeled_data.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

/// The default session of `fit`: it saves and logs nothing.
inline SessionOptions quiet_session() {
  return {.save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
}

/// The options of `Model::fit`.
struct FitOptions {
  /// The last epoch, not the number of them: epochs run from `initial_epoch` to `epochs` - 1.
  std::int64_t epochs = 1;
  /// The first epoch, from 0: above 0 to continue a training.
  std::int64_t initial_epoch = 0;
  /// The global batch size, for data in tensors only. Default: 32.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// Shuffles the examples in each epoch. For data in tensors.
  bool shuffle = true;
  /// Where the chief coordinates (`Model`): the number of steps of all workers together, which must
  /// be set. Else, unset: an epoch is one pass over the data. Set: each epoch starts where the last
  /// one stopped; an epoch in which the data ends is shorter, with a warning, and the next epoch
  /// starts at the beginning of the data.
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
  /// Evaluated at the end of epochs; the metrics have the prefix "val_".
  std::optional<LabeledData> validation_data = std::nullopt;
  /// Instead of `validation_data`: the fraction of the data to use for validation, taken from the
  /// end. For data in tensors. 0: none.
  double validation_split = 0.0;
  /// Default: `batch_size`.
  std::optional<std::int64_t> validation_batch_size = std::nullopt;
  /// The number of validation batches. Default: all.
  std::optional<std::int64_t> validation_steps = std::nullopt;
  /// The number of epochs from one validation to the next.
  std::int64_t validation_freq = 1;
  /// Called around the training, its epochs and its batches, in this order.
  std::vector<CallbackPtr> callbacks = {};
  /// How much is printed.
  Verbose verbose = Verbose::kProgress;
  /// The session that runs the steps, with its hooks. With a `checkpoint_dir`, a fit that was
  /// killed resumes at the last checkpoint, also in the middle of an epoch. Keras:
  /// BackupAndRestore.
  SessionOptions session = quiet_session();
  /// The weights of the examples of a class in the loss, by the class index of the label; of
  /// classes that are not listed, 1. They act as sample weights of the training data, not of the
  /// validation, and need data with one label (class indices or one-hot) and without sample
  /// weights. Keras: class_weight.
  std::map<std::int64_t, double> class_weight = {};
  /// How many steps to make between two rounds of callbacks and hooks, which cost more than the
  /// step of a small model. The results are the same to the bit. Callbacks and hooks see the last
  /// of these steps (`FitContext::new_batches` says how many there were); what they do every n
  /// steps, they do at the next round. A round comes sooner at the end of an epoch, where the
  /// session is asked to stop, where `StopAtStepHook` stops, and where a checkpoint by steps is
  /// due. Several workers stop between rounds. Keras: an argument of compile.
  std::int64_t steps_per_execution = 1;
};

}  // namespace brigade::train
