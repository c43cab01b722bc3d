#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/shard_files.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// The chief's view of the other processes that write checkpoints with it; each of them has a
/// `ShardWriter`. The chief verifies what they write: size and checksum must match the chief's own
/// tensors. Otherwise the chief writes the files itself and leaves that process out of later saves.
///
/// Thread-safety: one thread at a time.
class OtherWriters {
 public:
  /// Throws kInvalidArgument unless `exchange` is the chief's.
  explicit OtherWriters(std::shared_ptr<ShardExchange> exchange);

  /// The number of processes, including the chief.
  int count() const { return exchange_->count(); }

  /// All processes write their own files of `shards` into the new folder `folder`; the chief uses
  /// `num_threads` threads. All files are synced when this returns. When it throws, other processes
  /// may still be writing only if they were lost or too slow. Throws as `write_shards` and
  /// `ShardExchange::wait_for`; if another process fails, throws its error with its name.
  std::vector<Seal> write(std::int64_t save, io::FileSystem& files, const io::Path& folder,
                          const std::vector<ShardFile>& shards, std::size_t num_threads);

  /// Tells the other processes that this save was abandoned, if they still wait for it.
  void give_up(std::int64_t save) noexcept;
  /// Tells the other processes that there are no further saves.
  void end() noexcept;

 private:
  struct Work;
  void announce(Announcement announcement);
  void post_quietly() noexcept;
  void take_report(int rank, Work& work);
  void exclude(int rank, const std::string& reason);

  std::shared_ptr<ShardExchange> exchange_;
  Announcement announced_;  // the latest one
};

}  // namespace brigade::checkpoint
