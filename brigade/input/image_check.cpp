#include "brigade/input/image_check.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/image/decode.h"

namespace brigade::input {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
// Some programs write a few bytes after the end of an image.
constexpr std::uint64_t kTailBytes = 256;

/// Bytes [offset, offset + count) of a file, fewer at its end.
std::string bytes_at(io::ReadableFile& file, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  file.seek(offset);
  bytes.resize(file.read({reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

/// Whether the end of the file is that of a whole image. False is no proof.
bool looks_whole(const io::FileSystem& files, const io::Path& path) {
  const auto info = files.info(path);
  if (!info) return false;
  const auto file = files.open(path);
  const std::string head = bytes_at(*file, 0, 8);
  const std::uint64_t tail_at = info->size > kTailBytes ? info->size - kTailBytes : 0;
  const std::string tail = bytes_at(*file, tail_at, kTailBytes);
  switch (image::format_of(head)) {
    case image::Format::kJpeg:
      return tail.find("\xFF\xD9") != std::string::npos;
    case image::Format::kPng:
      return tail.find("IEND\xAE\x42\x60\x82") != std::string::npos;
    case image::Format::kBmp:  // the size of the file is in its header
      return head.size() >= 6 && little_endian(head.substr(2, 4)) <= info->size;
  }
  return false;
}

void check_image_file(const io::FileSystem& files, const io::Path& path) {
  try {
    if (looks_whole(files, path)) return;
    image::decode_image(io::read_at_most(files, path, kMostBytes));
  } catch (const Error& error) {
    throw Error(error.code(), "The image ", base::quoted(path.string()),
                " cannot be read: ", error.what());
  }
}

}  // namespace

void check_image_files(std::span<const io::Path> paths, const ImageCheckOptions& options) {
  const std::size_t checked = std::min(paths.size(), options.most);
  for (std::size_t i = 0; i < checked; ++i)
    check_image_file(*options.files, paths[i * paths.size() / checked]);
}

}  // namespace brigade::input
