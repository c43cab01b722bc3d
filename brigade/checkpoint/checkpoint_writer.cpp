#include "brigade/checkpoint/checkpoint_writer.h"

#include <cstdio>
#include <random>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/shard_files.h"
#include "brigade/device/dtypes.h"

namespace brigade::checkpoint {
namespace {

Manifest manifest_of(const Snapshot& snapshot, const WriteRequest& request,
                     const std::vector<ShardFile>& shards, const std::vector<Seal>& seals) {
  Manifest manifest{.number = request.number,
                    .step = snapshot.step,
                    .time = request.time,
                    .files = {},
                    .tensors = {},
                    .metrics = snapshot.metrics,
                    .metadata = snapshot.metadata,
                    .kept = request.kept,
                    .state = snapshot.state};
  for (const ShardFile& shard : shards) {
    const std::size_t file = manifest.files.size();
    manifest.files.push_back({shard.name, seals[file]});
    auto& section = manifest.tensors[static_cast<std::size_t>(shard.section)];
    for (const NamedTensor& each : shard.tensors) {
      section[each.name] = {.file = file,
                            .dtype = *device::file_dtype_of(each.tensor.scalar_type()),
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

/// A folder that is removed unless it became a checkpoint.
class TemporaryFolder {
 public:
  TemporaryFolder(io::FileSystem& files, io::Path path) : files_(files), path_(std::move(path)) {}
  ~TemporaryFolder() {
    if (is_done_) return;
    try {
      remove_checkpoint_folder(files_, path_);
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
    if (!files.entry(path)) return path;
  }
}

/// Folders that other processes write into have a unique name, so that a late writer of a failed
/// save or of an earlier run of the job finds no folder.
std::string nonce_of(bool is_shared) {
  if (!is_shared) return "";
  std::random_device device;
  char nonce[32];
  std::snprintf(nonce, sizeof nonce, "%08x%08x", device(), device());
  return nonce;
}

std::vector<Seal> write_tensors(io::FileSystem& files, const io::Path& folder,
                                const std::vector<ShardFile>& shards, const WriteRequest& request) {
  if (request.others != nullptr)
    return request.others->write(request.save, files, folder, shards, request.num_threads);
  std::vector<const ShardFile*> all;
  for (const ShardFile& each : shards) all.push_back(&each);
  return write_shards(files, folder, all, request.num_threads);
}

}  // namespace

Written write_checkpoint(io::FileSystem& files, const Snapshot& snapshot,
                         const WriteRequest& request) {
  const std::vector<ShardFile> shards = plan_shards(snapshot, request.shards);
  TemporaryFolder folder(files, make_saving_folder(files, request.directory, snapshot.step,
                                                   nonce_of(request.others != nullptr)));
  const std::vector<Seal> seals = write_tensors(files, folder.path(), shards, request);
  Written written{.path = {}, .manifest = manifest_of(snapshot, request, shards, seals)};
  write_file(files, folder.path() / kManifestName, write_manifest(written.manifest));
  files.sync_directory(folder.path());
  written.path = free_path(files, request.directory, snapshot.step);
  folder.become(written.path);
  files.sync_directory(request.directory);
  return written;
}

}  // namespace brigade::checkpoint
