#include "brigade/checkpoint/shard_files.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/sha256.h"

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

std::string file_name(Section section, std::size_t index, std::size_t count) {
  char number[64];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", index + 1, count);
  return base::str_cat(section, number, ".safetensors");
}

/// Assigns the largest tensor first, each to the smallest shard, which balances the shards.
std::vector<ShardFile> spread(Section section, const std::vector<NamedTensor>& tensors,
                              std::size_t most) {
  const std::size_t count = std::min(most, tensors.size());
  std::vector<ShardFile> shards;
  for (std::size_t i = 0; i < count; ++i) {
    shards.push_back({.section = section, .name = file_name(section, i, count), .tensors = {}});
  }
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& each : tensors) order.push_back(&each);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->tensor.nbytes() > b->tensor.nbytes();
  });
  // One byte more each, so that empty tensors are spread as well and no shard stays empty.
  std::vector<std::size_t> bytes(count, 0);
  for (const NamedTensor* each : order) {
    const auto least = std::min_element(bytes.begin(), bytes.end()) - bytes.begin();
    bytes[static_cast<std::size_t>(least)] += each->tensor.nbytes() + 1;
    shards[static_cast<std::size_t>(least)].tensors.push_back(*each);
  }
  return shards;
}

bool is_distributed(const ShardFile& shard) {
  return shard.section != Section::kState;
}

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

std::vector<ShardFile> plan_shards(const Snapshot& snapshot, std::size_t most) {
  std::vector<ShardFile> shards;
  const auto add = [&](Section section, const std::vector<NamedTensor>& tensors) {
    for (ShardFile& each : spread(section, tensors, most)) shards.push_back(std::move(each));
  };
  add(Section::kVariables, snapshot.variables);
  add(Section::kTensors, snapshot.tensors);
  add(Section::kState, snapshot.arrays);
  return shards;
}

std::size_t shards_of(const SaverOptions& options, std::size_t writers) {
  return std::max(options.shards, writers);
}

std::size_t threads_of(const SaverOptions& options, std::size_t writers) {
  return (shards_of(options, writers) + writers - 1) / writers;
}

std::vector<int> assign_writers(const std::vector<ShardFile>& shards, int writers) {
  std::vector<int> result;
  int next = 0;
  for (const ShardFile& each : shards) {
    result.push_back(is_distributed(each) ? next : 0);
    if (is_distributed(each)) next = (next + 1) % writers;
  }
  return result;
}

std::string digest_of(const std::vector<ShardFile>& shards) {
  io::Sha256 digest;
  for (const ShardFile& shard : shards) {
    if (!is_distributed(shard)) continue;
    digest.update(base::str_cat(shard.name, "\n"));
    for (const NamedTensor& each : shard.tensors) {
      digest.update(base::str_cat(each.name.size(), " ", each.name, " ",
                                  device::file_dtype_of(each.tensor.scalar_type())->name, " ",
                                  base::join(each.tensor.sizes(), ","), "\n"));
    }
  }
  return digest.hex_digest();
}

}  // namespace brigade::checkpoint
