#include "brigade/checkpoint/shard_files.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>

namespace brigade::checkpoint {
namespace {

struct Unfinished {
  const ShardFile* shard = nullptr;
  std::unique_ptr<io::WritableFile> file = nullptr;
  Seal seal = {};
  std::exception_ptr error = nullptr;
};

Seal stream(io::WritableFile& file, const ShardFile& shard) {
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

class NullFile final : public io::WritableFile {
 public:
  void write(std::span<const std::byte>) override {}
  void sync() override {}
  void close() override {}
};

}  // namespace

// Thread i writes the shards i, i + num_threads, i + 2 num_threads, ...; the caller is thread 0. A
// thread syncs after all of its files are written: the disk is busy with the first file meanwhile,
// and one commit of the file system's journal covers all of them.
std::vector<Seal> write_shards(io::FileSystem& files, const io::Path& folder,
                               std::span<const ShardFile* const> shards, std::size_t num_threads) {
  std::vector<Unfinished> all;
  for (const ShardFile* each : shards) all.push_back({.shard = each});
  const auto each_of_thread = [&](std::size_t index, const auto& call) {
    for (std::size_t i = index; i < all.size(); i += num_threads) {
      try {
        call(all[i]);
      } catch (...) {
        all[i].error = std::current_exception();
        return false;
      }
    }
    return true;
  };
  const auto run_thread = [&](std::size_t index) {
    const bool is_written =
        each_of_thread(index, [&](Unfinished& each) { write(files, folder, each); });
    if (is_written) each_of_thread(index, finish);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t index = 1; index < std::min(num_threads, all.size()); ++index) {
      threads.emplace_back(run_thread, index);
    }
    run_thread(0);
  }
  std::vector<Seal> seals;
  for (const Unfinished& each : all) {
    if (each.error) std::rethrow_exception(each.error);
    seals.push_back(each.seal);
  }
  return seals;
}

Seal seal_of(const ShardFile& shard) {
  NullFile null_file;
  return stream(null_file, shard);
}

}  // namespace brigade::checkpoint
