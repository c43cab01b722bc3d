#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/shard_writer.h"
#include "brigade/cluster/membership.h"
#include "brigade/distribute/strategy.h"

namespace brigade::train {

/// A `ShardExchange` over the key-value store of a membership: each process has one key, whose
/// value it replaces. `group` separates exchanges of the same membership; it must be the same in
/// all processes. Waits end after `timeout`, and when a member is lost.
///
/// A wait polls the store, at intervals of at most 20 ms: the store notifies when a key is set for
/// the first time, not when it changes, and a new key for each message would stay in the store for
/// ever.
std::shared_ptr<checkpoint::ShardExchange> make_shard_exchange(
    std::shared_ptr<cluster::Membership> membership, std::int64_t group,
    std::chrono::milliseconds timeout);

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

  /// Whether this worker must call `save`: the chief, and all workers if they share collectives.
  /// Others need not collect the contents.
  bool participates() const { return participates_; }
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
  bool participates_;
  std::unique_ptr<checkpoint::Saver> saver_;               // in the chief
  std::unique_ptr<checkpoint::ShardWriter> shard_writer_;  // in other workers, if all write
};

}  // namespace brigade::train
