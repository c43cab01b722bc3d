#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/checkpoint/saver_options.h"
#include "brigade/io/file_system.h"
#include "brigade/train/callbacks/callback.h"

namespace brigade::train {

enum class DeleteCheckpoint { kNo, kYes };

/// Makes a fit that was killed or interrupted go on where its last backup was, with everything that
/// a checkpoint holds: weights, optimizer, epoch, batch, the place in the data, other callbacks'
/// state. Keras: BackupAndRestore.
///
///   model.fit(train, {.epochs = 10, .callbacks = {BackupAndRestore{.backup_dir =
///   "/tmp/backup"}}});
///
/// With `FitOptions::session`'s `checkpoint_dir`, which saves by steps or time, it is not needed.
struct BackupAndRestore {
  io::Path backup_dir = {};
  /// Also behind so many batches, counted over epochs. Unset: at the end of each epoch alone.
  std::optional<std::int64_t> every_batches = std::nullopt;
  /// Whether the backup is removed when the fit has ended as it should: by its last epoch, or by a
  /// callback that stopped it. One whose session was asked to stop is backed up and kept.
  DeleteCheckpoint delete_checkpoint = DeleteCheckpoint::kYes;
  /// Of several workers, which all need this callback, and must see the directory.
  checkpoint::Writers writers = checkpoint::Writers::kChief;

  /// Throws kInvalidArgument without a directory and for `every_batches` below 1; the fit does if
  /// its session has a place to resume from already.
  std::shared_ptr<Callback> callback() const;
};

}  // namespace brigade::train
