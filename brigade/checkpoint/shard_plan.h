#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/saver_options.h"

namespace brigade::checkpoint {

/// One tensor file of a checkpoint to come.
struct Shard {
  Section section = Section::kVariables;
  std::string name;  ///< Of the file.
  std::vector<NamedTensor> tensors;
};

/// The files of a snapshot: each section spread over at most `most` of them, by size. Names, dtypes
/// and shapes alone decide, so processes that hold the same tensors make the same plan.
std::vector<Shard> plan_shards(const Snapshot& snapshot, std::size_t most);

/// How many files a section is spread over when so many processes write: one each at least.
std::size_t shards_of(const SaverOptions& options, std::size_t writers);
/// By how many threads each of them writes its files.
std::size_t threads_of(const SaverOptions& options, std::size_t writers);

/// Which of `writers` processes writes each of the files. Those of variables and tensors go round;
/// arrays of the state tree are the first's, because a process may have some of its own.
std::vector<int> assign_writers(const std::vector<Shard>& shards, int writers);

/// Equal where the files that go round hold tensors of the same names, dtypes and shapes.
std::string digest_of(const std::vector<Shard>& shards);

}  // namespace brigade::checkpoint
