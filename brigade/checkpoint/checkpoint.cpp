#include "brigade/checkpoint/checkpoint.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/state_json.h"

namespace brigade::checkpoint {
namespace {

io::ArrayLeaf leaf_of(const at::Tensor& tensor) {
  const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  return {.dtype = std::string(device::file_dtype_of(tensor.scalar_type())->safetensors),
          .shape = tensor.sizes().vec(),
          .bytes = {bytes.begin(), bytes.end()}};
}

auto count_in(const std::map<std::string, ManifestTensor>& tensors, std::size_t file) {
  return std::count_if(tensors.begin(), tensors.end(),
                       [&](const auto& each) { return each.second.file == file; });
}

}  // namespace

Checkpoint::Checkpoint(std::shared_ptr<const io::FileSystem> files, io::Path path,
                       Manifest manifest)
    : files_(std::move(files)), path_(std::move(path)), manifest_(std::move(manifest)) {}

Checkpoint Checkpoint::open(std::shared_ptr<const io::FileSystem> files, const io::Path& folder) {
  check_argument(files != nullptr, "Checkpoint: needs a file system");
  Manifest manifest = read_manifest(*files, folder);
  return Checkpoint(std::move(files), folder, std::move(manifest));
}

std::vector<std::string> Checkpoint::names(Section section) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest_.section(section)) names.push_back(name);
  return names;
}

bool Checkpoint::has(std::string_view name, Section section) const {
  return manifest_.section(section).contains(std::string(name));
}

at::Tensor Checkpoint::tensor(std::string_view name, Section section) const {
  const auto& known = manifest_.section(section);
  const auto found = known.find(std::string(name));
  if (found == known.end()) {
    throw Error(ErrorCode::kNotFound, path_, ": no tensor is called ", base::quoted(name),
                " among its ", known.size(), " ", section,
                base::did_you_mean(name, names(section)));
  }
  for (NamedTensor& each : read_file(found->second.file, section)) {
    if (each.name == name) return std::move(each.tensor);
  }
  throw Error(ErrorCode::kInternal, path_, ": ", base::quoted(name), " vanished");
}

std::vector<NamedTensor> Checkpoint::tensors(Section section) const {
  std::vector<NamedTensor> all;
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    if (count_in(manifest_.section(section), file) == 0) continue;
    for (NamedTensor& each : read_file(file, section)) all.push_back(std::move(each));
  }
  std::sort(all.begin(), all.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return all;
}

// The manifest and the header of the file must agree.
std::vector<NamedTensor> Checkpoint::read_file(std::size_t file, Section section) const {
  const ManifestFile& entry = manifest_.files[file];
  const io::Path path = path_ / entry.name;
  std::vector<NamedTensor> tensors = std::move(read_safetensors(*files_, path, entry.seal).tensors);
  const auto& known = manifest_.section(section);
  bool is_same = std::cmp_equal(tensors.size(), count_in(known, file));
  for (const NamedTensor& each : tensors) {
    const auto match = known.find(each.name);
    is_same = is_same && match != known.end() && match->second.file == file &&
              match->second.dtype.type == each.tensor.scalar_type() &&
              each.tensor.sizes() == at::IntArrayRef(match->second.shape);
    if (!is_same) break;
  }
  if (is_same) return tensors;
  throw Error(ErrorCode::kDataLoss, path, ": it does not hold the tensors that the manifest lists");
}

io::StateTree Checkpoint::state() const {
  std::map<std::string, io::ArrayLeaf> arrays;
  for (const NamedTensor& each : tensors(Section::kState)) {
    arrays.emplace(each.name, leaf_of(each.tensor));
  }
  try {
    return io::from_json(manifest_.state, std::move(arrays));
  } catch (const Error& error) {
    throw Error(error.code(), path_ / kManifestName, ": ", error.what());
  }
}

void Checkpoint::verify() const {
  for (const ManifestFile& each : manifest_.files) {
    const Seal seal = seal_of(*files_, path_ / each.name);
    if (seal == each.seal) continue;
    throw Error(ErrorCode::kDataLoss, path_ / each.name, ": has ", seal.bytes,
                " bytes with the CRC-32C ", to_hex(seal.crc32c), ", expected ", each.seal.bytes,
                " with ", to_hex(each.seal.crc32c));
  }
}

std::vector<io::Path> checkpoint_paths(const io::FileSystem& files, const io::Path& directory) {
  std::vector<io::Path> paths;
  for (const DirectoryEntry& each : list_checkpoints(files, directory)) {
    if (each.manifest) paths.push_back(each.path);
  }
  return paths;
}

std::optional<io::Path> latest_checkpoint(const io::FileSystem& files, const io::Path& directory) {
  const std::vector<io::Path> paths = checkpoint_paths(files, directory);
  if (paths.empty()) return std::nullopt;
  return paths.back();
}

LatestComplete find_latest_complete(std::shared_ptr<const io::FileSystem> files,
                                    const io::Path& directory) {
  check_argument(files != nullptr, "find_latest_complete: needs a file system");
  LatestComplete result;
  std::vector<DirectoryEntry> entries = list_checkpoints(*files, directory);
  for (const DirectoryEntry& each : entries) {
    if (!each.manifest) result.broken.push_back({each.path, each.reason});
  }
  for (auto each = entries.rbegin(); each != entries.rend(); ++each) {
    if (!each->manifest) continue;
    try {
      Checkpoint checkpoint = Checkpoint::open(files, each->path);
      checkpoint.verify();
      result.checkpoint = std::move(checkpoint);
      return result;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kNotFound) throw;
      result.broken.push_back({each->path, error.what()});
    }
  }
  return result;
}

}  // namespace brigade::checkpoint
