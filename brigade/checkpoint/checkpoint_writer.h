#pragma once

#include <cstddef>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/other_writers.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Where and as what a snapshot is written.
struct WriteRequest {
  io::Path directory;  ///< Must exist.
  std::int64_t number = 1;
  std::chrono::milliseconds time{};
  KeptMark kept;
  std::size_t shards = 1;  ///< Files a section.
  std::size_t num_threads = 1;   ///< Threads of this process.
  /// Who writes with this process; null: nobody. Counted by all: `save`.
  OtherWriters* others = nullptr;
  std::int64_t save = 0;
};

/// What came of it.
struct Written {
  io::Path path;
  Manifest manifest;
};

/// Writes one checkpoint: the tensor files, then the manifest, into a folder that is no checkpoint
/// yet; everything is on the disk before the folder gets its name, and the name is on the disk
/// before this returns. A crash anywhere leaves no checkpoint or a whole one. If the step has a
/// folder already, the new one gets another name and the old one stays.
///
/// Throws as `io::FileSystem` and `OtherWriters::write` do; then what was written is removed as far
/// as that works.
Written write_checkpoint(io::FileSystem& files, const Snapshot& snapshot,
                         const WriteRequest& request);

}  // namespace brigade::checkpoint
