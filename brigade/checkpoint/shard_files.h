#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "brigade/checkpoint/safetensors_stream.h"
#include "brigade/checkpoint/shard_plan.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Writes the files into `folder`, where they must not exist yet, with `num_threads` threads
/// including the caller's. All files are synced when this returns. Throws as `io::FileSystem` does.
std::vector<Seal> write_shards(io::FileSystem& files, const io::Path& folder,
                               std::span<const ShardFile* const> shards, std::size_t num_threads);

/// The result that `write_shards` would give for `shard`, without writing it.
Seal seal_of(const ShardFile& shard);

}  // namespace brigade::checkpoint
