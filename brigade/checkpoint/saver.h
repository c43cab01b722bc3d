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

/// Saves checkpoints into a directory while training goes on, and removes old ones. Usable alone,
/// in a loop written by hand (TensorFlow: tf.train.Saver, tf.train.CheckpointManager):
///
///   Saver saver(io::posix_file_system(), {.directory = "/tmp/run", .keep_last = 3});
///   ...
///   saver.save(step, {.variables = model.variables()});
///   ...
///   saver.close();
///
/// A crash of the program or the machine at any moment leaves every checkpoint whole that was whole
/// before, and the new one whole or absent. A checkpoint is removed only after a newer one is on
/// the disk, and never the newest whole one. What is kept is read from the directory itself, so it
/// outlives the process. Folders that a crash left half written are removed by the next saver of
/// the directory; checkpoints that are broken stay, for people to look at. Only what savers write
/// is ever removed, and no symbolic link is followed for it: what else lies in the directory stays,
/// with a warning where it is in the way.
///
/// A directory that is removed, renamed, replaced or unmounted meanwhile is not made anew, and what
/// took its place is not written to: the next save throws kFailedPrecondition, which names it. In
/// one that has become read-only it throws kPermissionDenied.
///
/// Thread-safety: one thread at a time.
class Saver {
 public:
  /// Makes the directory if it is missing. Throws kInvalidArgument for options without meaning, and
  /// as `io::FileSystem` does. `clock` stamps the checkpoints; null: the machine's. With an
  /// exchange all its processes write tensor files: this one, the chief, has the saver, each of the
  /// others a `ShardWriter`, and all save the same contents at the same time.
  Saver(std::shared_ptr<io::FileSystem> files, SaverOptions options,
        std::shared_ptr<const base::Clock> clock = nullptr,
        std::shared_ptr<ShardExchange> exchange = nullptr);
  /// Closes; an error is logged: call `close` to see it.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Saves `contents` as the checkpoint of `step`; with Writing::kBackground it copies them and
  /// returns. Waits first for the write before, and throws its error if it failed (nothing is saved
  /// then; the call may be repeated). A step that is saved already is replaced once the new one is
  /// on the disk. Must not be called inside a replica. Throws kInvalidArgument for what a
  /// checkpoint cannot hold, kFailedPrecondition after `close` and for a directory that is not
  /// where it was.
  void save(std::int64_t step, const Contents& contents);

  /// Returns when nothing is being written; throws the error of the last write if it failed.
  void wait();
  /// The same, and ends the saving. A second call does nothing.
  void close();

  /// Gives checkpoints of the directory that were found broken other names (`ckpt-120.broken`),
  /// under which nobody takes them for checkpoints or removes them. Waits as `checkpoints` does.
  void set_aside(const std::vector<io::Path>& broken);

  /// The whole checkpoints of the directory that this saver knows, oldest first. Waits as `wait`
  /// does, without throwing its error.
  std::vector<io::Path> checkpoints();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace brigade::checkpoint
