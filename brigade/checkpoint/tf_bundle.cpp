#include "brigade/checkpoint/tf_bundle.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/unknown_name.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/crc32c.h"

namespace brigade::checkpoint {
namespace {

using io::TensorBundleEntry;
using io::TensorBundlePart;

constexpr std::string_view kIndexSuffix = ".index";
constexpr std::string_view kDataMark = ".data-";
constexpr std::size_t kPieceOfPart = std::size_t{256} << 10;  // fits into the processor's cache

io::Path with_suffix(io::Path path, std::string_view suffix) {
  return path += suffix;
}

bool is_file(const io::FileSystem& files, const io::Path& path) {
  const auto info = files.info(path);
  return info && info->kind != io::FileKind::kDirectory;
}

}  // namespace

std::optional<io::Path> tf_bundle_prefix(const io::FileSystem& files, const io::Path& path) {
  const std::string text = path.string();
  if (text.ends_with(kIndexSuffix)) return text.substr(0, text.size() - kIndexSuffix.size());
  const auto mark = text.rfind(kDataMark);
  if (mark != std::string::npos && files.exists(text.substr(0, mark) + std::string(kIndexSuffix))) {
    throw Error(ErrorCode::kInvalidArgument, path,
                " is a data file of a TensorFlow checkpoint; give the checkpoint: ",
                text.substr(0, mark), kIndexSuffix);
  }
  const bool is_prefix = !files.exists(path) && is_file(files, with_suffix(path, kIndexSuffix));
  return is_prefix ? std::optional(path) : std::nullopt;
}

TfBundle TfBundle::open(std::shared_ptr<const io::FileSystem> files, const io::Path& prefix) {
  check_argument(files != nullptr, "TfBundle: needs a file system");
  TfBundle bundle(std::move(files), prefix);
  const io::Path index = with_suffix(prefix, kIndexSuffix);
  const std::string table = io::read_at_most(*bundle.files_, index, kMostTfIndexBytes);
  bundle.index_ = io::parse_tensor_bundle_index(table, index.string());
  bundle.bytes_ = table.size();
  io::check_tensor_bundle_shards(bundle.index_, prefix.string(), [&](int shard) {
    const std::uint64_t bytes = bundle.shard_bytes(shard);
    bundle.bytes_ += bytes;
    return bytes;
  });
  return bundle;
}

io::Path TfBundle::shard_path(int shard) const {
  return io::tensor_bundle_shard_name(prefix_.string(), shard, index_.num_shards);
}

std::uint64_t TfBundle::shard_bytes(int shard) const {
  const io::Path path = shard_path(shard);
  const auto info = files_->info(path);
  if (info && info->kind == io::FileKind::kFile) return info->size;
  throw Error(ErrorCode::kNotFound, path, info ? ": it is not a file" : ": it is missing", "; ",
              prefix_, kIndexSuffix,
              " refers to it. A TensorFlow checkpoint is its index and all its data files");
}

std::vector<TfBundle::Listed> TfBundle::list() const {
  std::vector<Listed> result;
  for (const TensorBundleEntry& each : index_.tensors) {
    result.push_back({.name = each.name,
                      .dtype = each.dtype_name,
                      .shape = each.shape,
                      .is_readable = each.dtype.has_value()});
  }
  return result;
}

at::Tensor TfBundle::read(std::string_view name) const {
  const auto found = std::ranges::find(index_.tensors, name, &TensorBundleEntry::name);
  if (found != index_.tensors.end()) return read(*found);
  std::vector<std::string> names;
  for (const TensorBundleEntry& each : index_.tensors) names.push_back(each.name);
  throw Error(ErrorCode::kNotFound, prefix_, kIndexSuffix, ": no tensor is called ",
              base::quoted(name), " among its ", names.size(), base::did_you_mean(name, names));
}

std::vector<NamedTensor> TfBundle::tensors() const {
  std::vector<NamedTensor> result;
  for (const TensorBundleEntry& each : index_.tensors) {
    if (each.dtype) result.push_back({each.name, read(each)});
  }
  return result;
}

at::Tensor TfBundle::read(const TensorBundleEntry& entry) const {
  if (!entry.dtype) {
    throw Error(ErrorCode::kUnimplemented, prefix_, kIndexSuffix, ": tensor ",
                base::quoted(entry.name), " is ", entry.dtype_name, "; read are ",
                device::file_dtype_names());
  }
  const at::ScalarType type = device::file_dtype_named(entry.dtype->name)->type;
  at::Tensor whole = at::empty(entry.shape, at::TensorOptions().dtype(type));
  if (entry.parts.size() == 1) {
    read_part(entry.parts.front(), entry, whole);
    return whole;
  }
  for (const TensorBundlePart& part : entry.parts) {
    const at::Tensor target = whole.narrow(entry.axis, part.start, part.length);
    const at::Tensor value = at::empty(target.sizes(), whole.options());
    read_part(part, entry, value);
    target.copy_(value);
  }
  return whole;
}

void TfBundle::read_part(const TensorBundlePart& part, const TensorBundleEntry& entry,
                         const at::Tensor& to) const {
  const io::Path path = shard_path(part.shard);
  const auto fail = [&](std::string_view why) {
    throw Error(ErrorCode::kDataLoss, path, ": the ", part.bytes, " bytes at ", part.offset,
                " of tensor ", base::quoted(entry.name), " ", why);
  };
  const auto file = files_->open(path);
  file->seek(part.offset);
  const std::span<std::byte> all =
      to.numel() == 0 ? std::span<std::byte>()
                      : std::span(static_cast<std::byte*>(to.mutable_data_ptr()), to.nbytes());
  std::uint32_t crc = 0;
  for (std::span<std::byte> rest = all; !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), kPieceOfPart));
    if (file->read(piece) != piece.size()) fail("end while they are read");
    crc = io::extend_crc32c(crc, piece);
    rest = rest.subspan(piece.size());
  }
  if (io::mask_crc32c(crc) != part.masked_crc32c) fail("have a wrong checksum");
  if (to.scalar_type() == at::kBool && std::ranges::any_of(all, [](std::byte each) {
        return std::to_integer<unsigned>(each) > 1;
      })) {
    fail("have one that is neither 0 nor 1, and are bool");
  }
}

}  // namespace brigade::checkpoint
