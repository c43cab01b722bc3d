#include "brigade/checkpoint/shard_files.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>

namespace brigade::checkpoint {
namespace {

struct Unfinished {
  const Shard* shard = nullptr;
  std::unique_ptr<io::WritableFile> file = nullptr;
  Seal seal = {};
  std::exception_ptr error = nullptr;
};

Seal stream(io::WritableFile& file, const Shard& shard) {
  return stream_safetensors(file, shard.tensors, {{"format", "pt"}});
}

void write(io::FileSystem& files, const io::Path& folder, Unfinished& each) {
  each.file = files.create(folder / each.shard->name, io::CreateMode::kExclusive);
  each.seal = stream(*each.file, *each.shard);
}

void finish(Unfinished& each) {
  each.file->sync();
  each.file->close();
  each.file.reset();
}

class Nowhere final : public io::WritableFile {
 public:
  void write(std::span<const std::byte>) override {}
  void sync() override {}
  void close() override {}
};

}  // namespace

// Shard i, i + lanes, i + 2 lanes, ... by thread i, the caller's being thread 0. A lane syncs when
// all of its files are written: the disk is busy with the first meanwhile, and one commit of the
// file system's journal serves them all.
std::vector<Seal> write_shards(io::FileSystem& files, const io::Path& folder,
                               std::span<const Shard* const> shards, std::size_t lanes) {
  std::vector<Unfinished> all;
  for (const Shard* each : shards) all.push_back({.shard = each});
  const auto each_of_lane = [&](std::size_t lane, const auto& call) {
    for (std::size_t i = lane; i < all.size(); i += lanes) {
      try {
        call(all[i]);
      } catch (...) {
        all[i].error = std::current_exception();
        return false;
      }
    }
    return true;
  };
  const auto run_lane = [&](std::size_t lane) {
    const bool is_written =
        each_of_lane(lane, [&](Unfinished& each) { write(files, folder, each); });
    if (is_written) each_of_lane(lane, finish);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t lane = 1; lane < std::min(lanes, all.size()); ++lane) {
      threads.emplace_back(run_lane, lane);
    }
    run_lane(0);
  }
  std::vector<Seal> seals;
  for (const Unfinished& each : all) {
    if (each.error) std::rethrow_exception(each.error);
    seals.push_back(each.seal);
  }
  return seals;
}

Seal seal_of(const Shard& shard) {
  Nowhere nowhere;
  return stream(nowhere, shard);
}

}  // namespace brigade::checkpoint
