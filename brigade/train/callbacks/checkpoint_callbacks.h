#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/callbacks/metric_monitor.h"

namespace brigade::train {

/// Saves the whole training state (weights, optimizer, position) after each epoch, or after a
/// number of batches, in the background; `checkpoint::Checkpoint` and `restore_variables` read it.
/// Keras: ModelCheckpoint. To resume after a crash, use the `checkpoint_dir` of
/// `FitOptions::session` instead.
struct ModelCheckpoint {
  /// Where the checkpoints are saved; must be set.
  io::Path directory = {};
  /// With `save_best_only`: the metric by its name in the logs.
  std::string monitor = "val_loss";
  /// If true, only epochs with the best value of the metric so far are saved.
  bool save_best_only = false;
  /// Whether lower or higher values of `monitor` are better.
  MonitorMode mode = MonitorMode::kAuto;
  /// The first value must be better than this to be saved.
  std::optional<double> initial_value_threshold = std::nullopt;
  /// The number of batches from one save to the next, counted over epochs. Unset: save after each
  /// epoch.
  std::optional<std::int64_t> every_batches = std::nullopt;
  /// How many of the newest checkpoints to keep; 0: all, as in Keras.
  std::size_t keep_last = 5;
  /// Which workers write. All need this callback.
  checkpoint::Writers writers = checkpoint::Writers::kChief;

  /// Throws kInvalidArgument without a directory, for `every_batches` below 1 or together with
  /// `save_best_only`, and as `MetricMonitor`.
  std::shared_ptr<Callback> callback() const;
};

/// Lets a fit that was killed or interrupted resume from its last backup, with the whole state:
/// weights, optimizer, epoch, batch, position in the data, state of other callbacks. Keras:
/// BackupAndRestore.
///
///   model.fit(train, {.epochs = 10,
///                     .callbacks = {BackupAndRestore{.backup_dir = "/tmp/backup"}}});
///
/// It is not needed with the `checkpoint_dir` of `FitOptions::session`, which saves by steps or
/// time.
struct BackupAndRestore {
  /// Where the backups are saved; must be set.
  io::Path backup_dir = {};
  /// Also back up after this number of batches, counted over epochs. Unset: only at the end of each
  /// epoch.
  std::optional<std::int64_t> every_batches = std::nullopt;
  /// Whether to delete the backup when the fit has completed: after its last epoch, or stopped by a
  /// callback. If the session was asked to stop, the backup is kept.
  bool delete_checkpoint = true;
  /// Which workers write. All need this callback, and access to the directory.
  checkpoint::Writers writers = checkpoint::Writers::kChief;

  /// Throws kInvalidArgument without a directory and for `every_batches` below 1. The fit throws it
  /// if its session has `resume_from` set.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
