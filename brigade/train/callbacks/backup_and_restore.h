#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

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
