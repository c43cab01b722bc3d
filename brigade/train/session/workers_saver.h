#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/shard_writer.h"
#include "brigade/distribute/strategy.h"

namespace brigade::train {

/// What saves a training's checkpoints under a strategy of any number of workers. Each of them has
/// one, and all make the same calls: contents are read together, and written by the chief, alone or
/// with the others (`SaverOptions::writers`, of which the chief's counts). Whether a write has
/// failed is the chief's to say; in others nothing is thrown of it.
///
/// Thread-safety: one thread at a time.
class WorkersSaver {
 public:
  /// A collective of the workers. Throws as `checkpoint::Saver`.
  WorkersSaver(const distribute::Strategy& strategy, std::shared_ptr<io::FileSystem> files,
               const checkpoint::SaverOptions& options,
               std::shared_ptr<const base::Clock> clock = nullptr);

  /// As `checkpoint::Saver::save`; a collective of the workers.
  void save(std::int64_t step, const checkpoint::Contents& contents);
  /// Returns when this worker writes nothing. Throws the chief's errors, in the chief.
  void wait();
  void close();
  /// As `checkpoint::Saver::set_aside`, in the chief.
  void set_aside(const std::vector<io::Path>& broken);
  /// Those that the chief knows; in others none.
  std::vector<io::Path> checkpoints();

 private:
  std::unique_ptr<checkpoint::Saver> saver_;               // of the chief
  std::unique_ptr<checkpoint::ShardWriter> shard_writer_;  // of others, where all write
};

}  // namespace brigade::train
