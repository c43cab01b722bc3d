#include "brigade/checkpoint/weights_file.h"

#include <array>
#include <cstddef>
#include <span>

#include "brigade/base/error.h"
#include "brigade/checkpoint/tf_bundle.h"
#include "brigade/checkpoint/torch_import.h"
#include "brigade/io/sstable_reader.h"

namespace brigade::checkpoint {
namespace {

WeightsFile weights_of(const TfBundle& bundle) {
  WeightsFile result{.format = WeightsFormat::kTensorFlow, .tensors = bundle.tensors()};
  for (const TfBundle::Listed& each : bundle.list()) {
    if (!each.is_readable) result.left_out.push_back(each.name);
  }
  result.bytes = bundle.bytes();
  return result;
}

// A table under another name: an index that was renamed, or TensorFlow's V1 format, whose refusal
// says what to do.
void check_is_no_table(const io::FileSystem& files, const io::Path& path, std::uint64_t bytes) {
  if (bytes < io::kSstableFooterBytes) return;
  std::array<char, io::kSstableFooterBytes> last{};
  const auto file = files.open(path);
  file->seek(bytes - last.size());
  const std::size_t count = file->read(std::as_writable_bytes(std::span(last)));
  if (!io::has_sstable_footer({last.data(), count})) return;
  io::parse_tensor_bundle_index(io::read_at_most(files, path, kMostTfIndexBytes), path.string());
  throw Error(ErrorCode::kInvalidArgument, path,
              ": it is the index of a TensorFlow checkpoint; its name must be PREFIX.index, beside "
              "PREFIX.data-00000-of-0000N");
}

}  // namespace

std::string_view to_string(WeightsFormat format) {
  constexpr std::array<std::string_view, 3> kNames = {"safetensors", "torch", "tensorflow"};
  return kNames.at(static_cast<std::size_t>(format));
}

bool is_weights_file(const io::FileSystem& files, const io::Path& path) {
  const auto info = files.info(path);
  return info ? info->kind != io::FileKind::kDirectory : tf_bundle_prefix(files, path).has_value();
}

WeightsFile read_weights_file(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                              HashMismatch mismatch) {
  check_argument(files != nullptr, "read_weights_file: needs a file system");
  if (const auto prefix = tf_bundle_prefix(*files, path)) {
    return weights_of(TfBundle::open(std::move(files), *prefix));
  }
  const auto info = files->info(path);
  if (!info) throw Error(ErrorCode::kNotFound, "there are no weights at ", path);
  if (is_torch_file(*files, path)) {
    TorchFile file = read_torch(*files, path);
    return {.format = WeightsFormat::kTorch,
            .tensors = std::move(file.tensors),
            .left_out = std::move(file.left_out),
            .bytes = info->size};
  }
  check_is_no_table(*files, path, info->size);
  SafetensorsFile file = read_weights(*files, path, mismatch);
  return {.format = WeightsFormat::kSafetensors,
          .tensors = std::move(file.tensors),
          .metadata = std::move(file.metadata),
          .bytes = info->size};
}

}  // namespace brigade::checkpoint
