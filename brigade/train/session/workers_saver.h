#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/shard_writer.h"
#include "brigade/distribute/strategy.h"

namespace brigade::train {

/// Saves checkpoints under a strategy with any number of workers. Each worker has one, and all make
/// the same calls: all read the contents together, and the chief writes them, alone or with the
/// others (`SaverOptions::writers` of the chief decides). Errors of writing are thrown in the chief
/// only.
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
  /// Waits until this worker writes nothing. Throws errors of writing in the chief.
  void wait();
  void close();
  /// As `checkpoint::Saver::set_aside`, in the chief.
  void set_aside(const std::vector<io::Path>& broken);
  /// The checkpoints that the chief knows; empty in other workers.
  std::vector<io::Path> checkpoints();

 private:
  std::unique_ptr<checkpoint::Saver> saver_;               // in the chief
  std::unique_ptr<checkpoint::ShardWriter> shard_writer_;  // in other workers, if all write
};

}  // namespace brigade::train
