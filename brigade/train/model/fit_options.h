#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/train/callbacks/callback.h"
#include "brigade/train/model/labeled_data.h"
#include "brigade/train/callbacks/progress_callback.h"
#include "brigade/train/session/session.h"

namespace brigade::train {

/// The session that a `fit` runs in if it is not told otherwise: nothing is saved or logged.
inline SessionOptions quiet_session() {
  return {.save_checkpoints = {}, .save_summaries = {}, .log_step_count = {}};
}

/// What `Model::fit` may be told.
struct FitOptions {
  /// The last epoch, not the number of them: epochs run from `initial_epoch` to `epochs` - 1.
  std::int64_t epochs = 1;
  std::int64_t initial_epoch = 0;
  /// Of all replicas together, for data in tensors only. Default: 32.
  std::optional<std::int64_t> batch_size = std::nullopt;
  /// For data in tensors.
  Shuffle shuffle = Shuffle::kYes;
  /// Unset: an epoch is one pass over the data. Set: each epoch goes on where the one before
  /// stopped; where the data ends within an epoch, that epoch is shorter, with a warning, and the
  /// next one begins a new pass.
  std::optional<std::int64_t> steps_per_epoch = std::nullopt;
  /// Its figures are those of the epoch with "val_" before them.
  std::optional<LabeledData> validation_data = std::nullopt;
  /// Instead: the share of the data to be kept for validation, the last examples as they are given.
  /// For data in tensors. 0: none.
  double validation_split = 0.0;
  /// Default: as `batch_size`.
  std::optional<std::int64_t> validation_batch_size = std::nullopt;
  /// Batches. Default: all.
  std::optional<std::int64_t> validation_steps = std::nullopt;
  /// Epochs from one validation to the next.
  std::int64_t validation_freq = 1;
  std::vector<CallbackPtr> callbacks = {};
  Verbose verbose = Verbose::kProgress;
  /// What runs the steps. With a `checkpoint_dir` a fit that was killed goes on where it was, in
  /// the middle of the epoch, and hooks may be given. Keras: BackupAndRestore.
  SessionOptions session = quiet_session();
};

}  // namespace brigade::train
