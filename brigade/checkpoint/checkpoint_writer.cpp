#include "brigade/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/safetensors_stream.h"

namespace brigade::checkpoint {
namespace {

struct Shard {
  Section section;
  std::string name;
  std::vector<NamedTensor> tensors;
  std::unique_ptr<io::WritableFile> file;  // while it is being written
  Seal seal;
  std::exception_ptr error;
};

std::string file_name(Section section, std::size_t index, std::size_t count) {
  char number[64];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", index + 1, count);
  return base::str_cat(section, number, ".safetensors");
}

/// The largest first, each to the shard that has least: no shard is far above its share.
std::vector<Shard> spread(Section section, const std::vector<NamedTensor>& tensors,
                          std::size_t most) {
  const std::size_t count = std::min(most, tensors.size());
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < count; ++i) {
    shards.push_back({.section = section, .name = file_name(section, i, count)});
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

void write_shard(io::FileSystem& files, const io::Path& folder, Shard& shard) {
  shard.file = files.create(folder / shard.name, io::CreateMode::kExclusive);
  shard.seal = stream_safetensors(*shard.file, shard.tensors, {{"format", "pt"}});
}

void finish_shard(Shard& shard) {
  shard.file->sync();
  shard.file->close();
  shard.file.reset();
}

/// Shard i, i + lanes, i + 2 lanes, ... by thread i, the caller's being thread 0. A lane syncs when
/// all of its files are written: the disk is busy with the first meanwhile, and one commit of the
/// file system's journal serves them all.
void write_shards(io::FileSystem& files, const io::Path& folder, std::vector<Shard>& shards,
                  std::size_t lanes) {
  const auto each_of_lane = [&](std::size_t lane, const auto& call) {
    for (std::size_t i = lane; i < shards.size(); i += lanes) {
      try {
        call(shards[i]);
      } catch (...) {
        shards[i].error = std::current_exception();
        return false;
      }
    }
    return true;
  };
  const auto run_lane = [&](std::size_t lane) {
    const bool is_written =
        each_of_lane(lane, [&](Shard& shard) { write_shard(files, folder, shard); });
    if (is_written) each_of_lane(lane, finish_shard);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t lane = 1; lane < std::min(lanes, shards.size()); ++lane) {
      threads.emplace_back(run_lane, lane);
    }
    run_lane(0);
  }
  for (const Shard& each : shards) {
    if (each.error) std::rethrow_exception(each.error);
  }
}

Manifest manifest_of(const Snapshot& snapshot, const WriteRequest& request,
                     const std::vector<Shard>& shards) {
  Manifest manifest{.number = request.number,
                    .step = snapshot.step,
                    .time = request.time,
                    .files = {},
                    .tensors = {},
                    .metrics = snapshot.metrics,
                    .metadata = snapshot.metadata,
                    .kept = request.kept,
                    .state = snapshot.state};
  for (const Shard& shard : shards) {
    const std::size_t file = manifest.files.size();
    manifest.files.push_back({shard.name, shard.seal});
    auto& section = manifest.tensors[static_cast<std::size_t>(shard.section)];
    for (const NamedTensor& each : shard.tensors) {
      section[each.name] = {.file = file,
                            .dtype = *dtype_of(each.tensor.scalar_type()),
                            .shape = each.tensor.sizes().vec()};
    }
  }
  return manifest;
}

void write_file(io::FileSystem& files, const io::Path& path, std::string_view text) {
  const auto file = files.create(path, io::CreateMode::kExclusive);
  file->write(io::as_bytes(text));
  file->sync();
  file->close();
}

/// A folder that goes unless it became a checkpoint.
class TemporaryFolder {
 public:
  TemporaryFolder(io::FileSystem& files, io::Path path) : files_(files), path_(std::move(path)) {
    remove_folder(files_, path_);  // of a crash
    files_.create_directories(path_);
  }
  ~TemporaryFolder() {
    if (is_done_) return;
    try {
      remove_folder(files_, path_);
    } catch (const Error&) {  // the error that brought us here matters more
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const io::Path& path() const { return path_; }
  void become(const io::Path& target) {
    files_.rename(path_, target);
    is_done_ = true;
  }

 private:
  io::FileSystem& files_;
  io::Path path_;
  bool is_done_ = false;
};

io::Path free_path(const io::FileSystem& files, const io::Path& directory, std::int64_t step) {
  for (int attempt = 1;; ++attempt) {
    io::Path path = directory / folder_name(step, attempt);
    if (!files.exists(path)) return path;
  }
}

}  // namespace

Written write_checkpoint(io::FileSystem& files, const Snapshot& snapshot,
                         const WriteRequest& request) {
  std::vector<Shard> shards;
  const auto add = [&](Section section, const std::vector<NamedTensor>& tensors) {
    for (Shard& each : spread(section, tensors, request.shards)) shards.push_back(std::move(each));
  };
  add(Section::kVariables, snapshot.variables);
  add(Section::kTensors, snapshot.tensors);
  add(Section::kState, snapshot.arrays);
  TemporaryFolder folder(
      files, request.directory / base::str_cat(kTemporaryPrefix, snapshot.step, ".saving"));
  write_shards(files, folder.path(), shards, request.shards);
  Written written{.path = {}, .manifest = manifest_of(snapshot, request, shards)};
  write_file(files, folder.path() / kManifestName, write_manifest(written.manifest));
  files.sync_directory(folder.path());
  written.path = free_path(files, request.directory, snapshot.step);
  folder.become(written.path);
  files.sync_directory(request.directory);
  return written;
}

}  // namespace brigade::checkpoint
