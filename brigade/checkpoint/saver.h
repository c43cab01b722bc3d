#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Saves checkpoints into a directory in the background of training, and removes old ones. It can
/// be used on its own, in a custom loop (TensorFlow: tf.train.Saver, tf.train.CheckpointManager):
///
///   Saver saver({.directory = "/tmp/run", .keep_last = 3});
///   ...
///   saver.save(step, {.variables = model.variables()});
///   ...
///   saver.close();
///
/// A crash of the program or the machine at any point leaves all existing checkpoints complete, and
/// the new one complete or absent. A checkpoint is removed only after a newer one is on the disk,
/// and the newest complete one is never removed. The state of retention is read from the directory
/// itself, so it survives the process. The next saver of the directory removes folders that a crash
/// left incomplete; broken checkpoints stay for inspection. Only files written by savers are
/// removed, and symbolic links are not followed: all other files stay, with a warning if they block
/// the saver.
///
/// A directory that is removed, renamed, replaced or unmounted during training is not created
/// again, and a replacement is not written to: the next save throws kFailedPrecondition, which
/// names the directory. If the directory has become read-only, it throws kPermissionDenied.
///
/// Thread-safety: one thread at a time.
class Saver {
 public:
  /// Creates the directory if it is missing. Throws kInvalidArgument for invalid options, and as
  /// `io::FileSystem` does. `clock` gives the checkpoints' times; null: the system clock. With an
  /// exchange, all of its processes write tensor files: this process, the chief, has the saver,
  /// each of the others a `ShardWriter`, and all save the same contents at the same time.
  Saver(std::shared_ptr<io::FileSystem> files, SaverOptions options,
        std::shared_ptr<const base::Clock> clock = nullptr,
        std::shared_ptr<ShardExchange> exchange = nullptr);
  /// The same, with the files of this machine.
  explicit Saver(const SaverOptions& options) : Saver(io::posix_file_system(), options) {}
  /// Closes. An error is only logged: call `close` to get it.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Saves `contents` as the checkpoint of `step`; with Writing::kBackground it copies them and
  /// returns. Waits for the previous write first, and throws its error if it failed (then nothing
  /// is saved, and the call may be repeated). If the step is saved already, the old checkpoint is
  /// removed once the new one is on the disk. Must not be called inside a replica. Throws
  /// kInvalidArgument for contents that a checkpoint cannot hold, kFailedPrecondition after `close`
  /// and if the directory was moved or replaced.
  void save(std::int64_t step, const Contents& contents);

  /// Waits until the last write is finished, and throws its error if it failed.
  void wait();
  /// Waits, and ends the saver. A second call does nothing.
  void close();

  /// Renames broken checkpoints of the directory (to `ckpt-120.broken`). Under the new names they
  /// are neither loaded nor removed. Waits as `checkpoints` does.
  void set_aside(const std::vector<io::Path>& broken);

  /// The complete checkpoints of the directory that this saver knows, oldest first. Waits as `wait`
  /// does, without throwing its error.
  std::vector<io::Path> checkpoints();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace brigade::checkpoint
