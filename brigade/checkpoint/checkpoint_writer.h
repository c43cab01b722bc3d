#pragma once

#include <cstddef>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/other_writers.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Where a snapshot is written, and as which checkpoint.
struct WriteRequest {
  io::Path directory;  ///< Must exist.
  std::int64_t number = 1;
  std::chrono::milliseconds time{};
  KeptMark kept;
  std::size_t shards = 1;       ///< Files per section.
  std::size_t num_threads = 1;  ///< Threads of this process.
  /// The other processes that write it too; null: none. All processes count `save`.
  OtherWriters* others = nullptr;
  std::int64_t save = 0;
};

/// The checkpoint that was written.
struct Written {
  io::Path path;
  Manifest manifest;
};

/// Writes one checkpoint: the tensor files, then the manifest, into a temporary folder. Everything
/// is synced before the folder is renamed to its final name, and the rename is synced before this
/// returns. A crash at any point leaves either no checkpoint or a complete one. If the step has a
/// folder already, the new one gets another name and the old one stays.
///
/// Throws as `io::FileSystem` and `OtherWriters::write` do; the files written so far are then
/// removed if possible.
Written write_checkpoint(io::FileSystem& files, const Snapshot& snapshot,
                         const WriteRequest& request);

}  // namespace brigade::checkpoint
