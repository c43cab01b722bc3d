#pragma once

#include <cstdint>
#include <memory>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Writes one process's share of the checkpoints that the chief's `Saver` commits: for processes
/// that hold the same contents, see the same folder, and save at the same steps (the workers of
/// one job). Which files are whose both know; when the chief has made the folder it says so, and
/// when the files are on the disk it is told.
///
/// The outcome of a save is the chief's to report. What goes wrong here is told to it, and logged:
/// a process that cannot take part (it does not see the folder, may not write there, or holds other
/// tensors) is left out from then on, and the chief writes its share; any other error fails the
/// chief's save by its name.
///
/// Thread-safety: one thread at a time.
class ShardWriter {
 public:
  /// `options` as the chief's: directory, writing and shards count. Throws kInvalidArgument for
  /// options without meaning.
  ShardWriter(std::shared_ptr<io::FileSystem> files, SaverOptions options,
              std::shared_ptr<ShardExchange> exchange);
  /// Closes.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Takes part in a save: all processes call it, in the same order. With Writing::kBackground it
  /// copies its share and returns. Waits first for the save before. Throws as `take_snapshot`, and
  /// kFailedPrecondition after `close`.
  void save(std::int64_t step, const Contents& contents);

  /// Returns when nothing is being written.
  void wait();
  /// The same, and takes part in no further save.
  void close();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace brigade::checkpoint
