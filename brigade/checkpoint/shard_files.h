#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/saver_options.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// One tensor file of a planned checkpoint.
struct ShardFile {
  Section section = Section::kVariables;
  std::string name;  ///< Of the file.
  std::vector<NamedTensor> tensors;
};

/// The files of a snapshot: each section is spread over at most `most` files, by size. The plan
/// depends on names, dtypes and shapes only, so processes with the same tensors make the same plan.
std::vector<ShardFile> plan_shards(const Snapshot& snapshot, std::size_t most);

/// The number of files per section if `writers` processes write: at least one each.
std::size_t shards_of(const SaverOptions& options, std::size_t writers);
/// The number of threads with which each process writes its files.
std::size_t threads_of(const SaverOptions& options, std::size_t writers);

/// The rank that writes each file. Files of variables and tensors are assigned round robin; arrays
/// of the state tree are written by rank 0, because they may differ between processes.
std::vector<int> assign_writers(const std::vector<ShardFile>& shards, int writers);

/// Equal if the files that are assigned round robin hold tensors of the same names, dtypes and
/// shapes.
std::string digest_of(const std::vector<ShardFile>& shards);

/// Writes the files into `folder`, where they must not exist yet, with `num_threads` threads
/// including the caller's. All files are synced when this returns. Throws as `io::FileSystem` does.
std::vector<Seal> write_shards(io::FileSystem& files, const io::Path& folder,
                               std::span<const ShardFile* const> shards, std::size_t num_threads);

/// The result that `write_shards` would give for `shard`, without writing it.
Seal seal_of(const ShardFile& shard);

}  // namespace brigade::checkpoint
