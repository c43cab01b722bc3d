#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "brigade/checkpoint/safetensors_stream.h"
#include "brigade/checkpoint/shard_plan.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Writes the files into `folder`, which must not have them, by so many threads (the caller's is
/// one of them). All are on the disk when it returns. Throws as `io::FileSystem` does.
std::vector<Seal> write_shards(io::FileSystem& files, const io::Path& folder,
                               std::span<const Shard* const> shards, std::size_t num_threads);

/// What `write_shards` would return, without writing.
Seal seal_of(const Shard& shard);

}  // namespace brigade::checkpoint
