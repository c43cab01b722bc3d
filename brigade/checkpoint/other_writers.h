#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors_stream.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/shard_messages.h"
#include "brigade/checkpoint/shard_plan.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// The processes that write checkpoints with the chief (each has a `ShardWriter`), as the chief
/// sees them. It trusts none: what another has written must be, by size and sum, what the chief
/// holds; otherwise the chief writes it itself, and leaves that process out of the saves to come.
///
/// Thread-safety: one thread at a time.
class OtherWriters {
 public:
  /// Throws kInvalidArgument unless it is the chief's exchange.
  explicit OtherWriters(std::shared_ptr<ShardExchange> exchange);

  /// Processes, the chief included.
  int count() const { return exchange_->count(); }

  /// Has everybody write its share of `shards` into `folder`, a new one, the chief's by `num_threads`
  /// threads. All are on the disk when it returns. When it throws, others may be writing still only
  /// if they were lost or too slow. Throws as `write_shards`; what made another process fail, with
  /// its name; and as `ShardExchange::wait_for`.
  std::vector<Seal> write(std::int64_t save, io::FileSystem& files, const io::Path& folder,
                          const std::vector<Shard>& shards, std::size_t num_threads);

  /// Tells the others that nothing comes of this save, if they wait for it still.
  void give_up(std::int64_t save) noexcept;
  /// Tells the others that no further save comes.
  void end() noexcept;

 private:
  struct Work;
  void announce(Announcement announcement);
  void post_quietly() noexcept;
  void take_report(int rank, Work& work);
  void leave_out(int rank, const std::string& reason);

  std::shared_ptr<ShardExchange> exchange_;
  Announcement announced_;  // the last one
};

}  // namespace brigade::checkpoint
