#pragma once

#include <cstdint>
#include <memory>

#include "brigade/checkpoint/contents.h"
#include "brigade/io/file_system.h"

namespace brigade::ps {

/// All of a server's state after record `covered` of its log, as a snapshot has it.
struct StoreMoment {
  std::int64_t covered = 0;
  std::uint64_t log_bytes = 0;  ///< of the log up to there, since the last snapshot
  checkpoint::Contents contents;
};

/// Removes what a store has in `folder`: its log, then its snapshots. A store must not be open.
void clear_store(io::FileSystem& files, const io::Path& folder);

/// Puts another server's state into the `folder` of a store, which was cleared: a store that is
/// opened there has it, and its next record is `covered` + 1.
void install_store(const std::shared_ptr<io::FileSystem>& files, const io::Path& folder,
                   const StoreMoment& moment);

}  // namespace brigade::ps
