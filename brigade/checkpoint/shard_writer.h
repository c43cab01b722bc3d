#pragma once

#include <cstdint>
#include <memory>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Writes one process's shards of the checkpoints that the chief's `Saver` commits: for processes
/// that hold the same contents, see the same folder, and save at the same steps (the workers of one
/// job). All processes compute the same assignment of files; the chief announces the folder, and
/// each writer reports when its files are on the disk.
///
/// The chief reports the result of a save. An error here is logged and sent to the chief: a process
/// that cannot take part (it does not see the folder, may not write there, or holds other tensors)
/// is left out from then on, and the chief writes its shards; any other error fails the chief's
/// save, which names this process.
///
/// Thread-safety: one thread at a time.
class ShardWriter {
 public:
  /// `options` must equal the chief's; only directory, writing and shards are used. Throws
  /// kInvalidArgument for invalid options.
  ShardWriter(std::shared_ptr<io::FileSystem> files, SaverOptions options,
              std::shared_ptr<ShardExchange> exchange);
  /// Closes.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Takes part in a save: all processes call it, in the same order. With Writing::kBackground it
  /// copies its shards and returns. Waits for the previous save first. Throws as `take_snapshot`,
  /// and kFailedPrecondition after `close`.
  void save(std::int64_t step, const Contents& contents);

  /// Waits until the last save is finished.
  void wait();
  /// Waits, and takes part in no further save.
  void close();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace brigade::checkpoint
