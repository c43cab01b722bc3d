#include "brigade/summary/png_encoder.h"

#include <zlib.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::summary {
namespace {

using base::str_cat;

std::string big_endian(std::uint32_t value) {
  std::string bytes(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (24 - 8 * i) & 0xff);
  return bytes;
}

/// A part of a PNG file: length, name, data, checksum of name and data.
std::string chunk(std::string_view name, std::string_view data) {
  const std::string body = str_cat(name, data);
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  return str_cat(big_endian(static_cast<std::uint32_t>(data.size())), body,
                 big_endian(static_cast<std::uint32_t>(sum)));
}

void check_image(const ImageView& image) {
  constexpr std::int64_t kMostBytes = 1 << 30;
  const auto& [height, width, channels, pixels] = image;
  check_argument(channels >= 1 && channels <= 4,
                 str_cat("an image has 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA) channels, "
                         "not ",
                         channels));
  check_argument(height > 0 && width > 0,
                 str_cat("an image of ", height, " by ", width, " has no pixels"));
  check_argument(
      height <= kMostBytes && width <= kMostBytes && height <= kMostBytes / (width * channels),
      str_cat("an image of ", height, " by ", width, " is larger than 1 GiB"));
  check_argument(
      static_cast<std::int64_t>(pixels.size()) == height * width * channels,
      str_cat("an image of ", height, " by ", width, " with ", channels, " channels takes ",
              height * width * channels, " bytes, not ", pixels.size()));
}

std::string header_of(const ImageView& image) {
  constexpr std::array<char, 5> kColorTypes = {0, 0, 4, 2, 6};  // by the number of channels
  std::string header = big_endian(static_cast<std::uint32_t>(image.width)) +
                       big_endian(static_cast<std::uint32_t>(image.height));
  header += '\x08';  // bits per channel
  header += kColorTypes[static_cast<std::size_t>(image.channels)];
  header.append(3, '\0');  // the only compression, the only set of filters, not interlaced
  return header;
}

/// The rows, each after the number of its filter (0: none).
std::string rows_of(const ImageView& image) {
  const auto row_bytes = static_cast<std::size_t>(image.width * image.channels);
  const auto* pixels = reinterpret_cast<const char*>(image.pixels.data());
  std::string rows;
  rows.reserve(image.pixels.size() + static_cast<std::size_t>(image.height));
  for (std::size_t row = 0; row < static_cast<std::size_t>(image.height); ++row) {
    rows += '\0';
    rows.append(pixels + row * row_bytes, row_bytes);
  }
  return rows;
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(result.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_DEFAULT_COMPRESSION);
  if (status != Z_OK) {
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("cannot compress an image of ", bytes.size(), " bytes: out of memory"));
  }
  result.resize(size);
  return result;
}

}  // namespace

std::string encode_png(const ImageView& image) {
  check_image(image);
  return str_cat("\x89PNG\r\n\x1a\n", chunk("IHDR", header_of(image)),
                 chunk("IDAT", compressed(rows_of(image))), chunk("IEND", ""));
}

}  // namespace brigade::summary
