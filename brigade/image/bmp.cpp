#include "brigade/image/bmp.h"

#include <algorithm>
#include <array>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::image {
namespace {

using Rgba = std::array<std::uint8_t, 4>;

[[noreturn]] void fail_broken(std::size_t offset, std::string_view reason) {
  throw Error(ErrorCode::kDataLoss, "BMP: broken or cut short at byte ", offset, " (", reason, ")");
}

std::uint32_t number_at(std::string_view bytes, std::size_t offset, std::size_t length) {
  if (offset + length > bytes.size()) fail_broken(bytes.size(), "the header is incomplete");
  std::uint32_t number = 0;
  for (std::size_t i = length; i-- > 0;) {
    number = number << 8 | static_cast<std::uint8_t>(bytes[offset + i]);
  }
  return number;
}

struct BmpHead {
  Size size;
  bool is_upwards = true;
  std::int64_t bytes_a_pixel = 0;
  std::size_t pixels_at = 0;
  std::vector<Rgba> palette;  // only with 1 byte a pixel
};

std::vector<Rgba> palette_of(std::string_view bytes) {
  const std::size_t begin = 14 + std::size_t{number_at(bytes, 14, 4)};
  const std::uint32_t stated = number_at(bytes, 46, 4);
  const std::uint32_t colors = stated == 0 ? 256 : stated;
  if (colors > 256) fail_broken(46, "a palette of more than 256 colors");
  std::vector<Rgba> palette;
  for (std::uint32_t i = 0; i < colors; ++i) {
    const std::uint32_t bgr = number_at(bytes, begin + 4 * i, 4);
    palette.push_back({static_cast<std::uint8_t>(bgr >> 16), static_cast<std::uint8_t>(bgr >> 8),
                       static_cast<std::uint8_t>(bgr), 255});
  }
  return palette;
}

void check_kind(std::string_view bytes) {
  constexpr std::uint32_t kShortestHead = 40;
  constexpr std::uint32_t kBitFields = 3;  // only the usual order, blue first, is supported
  const std::uint32_t bits = number_at(bytes, 28, 2);
  const std::uint32_t compression = number_at(bytes, 30, 4);
  const bool is_plain =
      compression == 0 ||
      (compression == kBitFields && bits == 32 && number_at(bytes, 54, 4) == 0xff0000 &&
       number_at(bytes, 58, 4) == 0xff00 && number_at(bytes, 62, 4) == 0xff);
  if (number_at(bytes, 14, 4) < kShortestHead || (bits != 8 && bits != 24 && bits != 32) ||
      !is_plain) {
    throw Error(ErrorCode::kUnimplemented, "BMP: ", bits, " bits a pixel, compression ",
                compression, "; read are uncompressed files of 8, 24 or 32 bits a pixel");
  }
}

BmpHead read_head(std::string_view bytes) {
  if (!bytes.starts_with("BM")) fail_broken(0, "it does not begin with BM");
  check_kind(bytes);
  const auto width = static_cast<std::int32_t>(number_at(bytes, 18, 4));
  const auto height = static_cast<std::int32_t>(number_at(bytes, 22, 4));
  if (width <= 0 || height == 0) fail_broken(18, "it has no pixels");
  BmpHead head;
  head.is_upwards = height > 0;
  head.size = {head.is_upwards ? std::int64_t{height} : -std::int64_t{height}, width};
  head.bytes_a_pixel = number_at(bytes, 28, 2) / 8;
  head.pixels_at = number_at(bytes, 10, 4);
  if (head.bytes_a_pixel == 1) head.palette = palette_of(bytes);
  return head;
}

std::int64_t stored_channels(const BmpHead& head) {
  if (head.bytes_a_pixel != 1) return head.bytes_a_pixel;
  const auto is_gray = [](const Rgba& c) { return c[0] == c[1] && c[1] == c[2]; };
  return std::ranges::all_of(head.palette, is_gray) ? 1 : 3;
}

/// The color of the pixel that is stored from byte `offset` on.
Rgba color_at(const BmpHead& head, std::string_view bytes, std::size_t offset) {
  const auto* pixel = reinterpret_cast<const std::uint8_t*>(bytes.data()) + offset;
  if (head.bytes_a_pixel == 1) {
    if (*pixel >= head.palette.size()) {
      fail_broken(offset, "a color that its palette does not have");
    }
    return head.palette[*pixel];
  }
  return {pixel[2], pixel[1], pixel[0], head.bytes_a_pixel == 4 ? pixel[3] : std::uint8_t{255}};
}

/// The ITU-R 601 weights, as in libjpeg.
std::uint8_t gray_of(const Rgba& c) {
  return static_cast<std::uint8_t>((299 * c[0] + 587 * c[1] + 114 * c[2] + 500) / 1000);
}

void write_pixel(const Rgba& color, std::int64_t channels, std::uint8_t* to) {
  if (channels == 1) {
    *to = gray_of(color);
  } else {
    std::copy_n(color.begin(), channels, to);
  }
}

}  // namespace

Image decode_bmp(std::string_view bytes, const BmpDecodeOptions& options) {
  const BmpHead head = read_head(bytes);
  const std::int64_t channels = options.channels == 0 ? stored_channels(head) : options.channels;
  check_argument(channels == 1 || channels == 3 || channels == 4, "decode_bmp: channels is ",
                 options.channels,
                 "; it must be 0 (as in the file), 1 (gray), 3 (RGB) or 4 (RGBA)");
  internal::check_pixels("BMP", head.size, options.max_pixels);
  const std::int64_t row_bytes = (head.size.width * head.bytes_a_pixel + 3) / 4 * 4;
  if (head.pixels_at > bytes.size() ||
      static_cast<std::int64_t>(bytes.size() - head.pixels_at) < row_bytes * head.size.height) {
    fail_broken(bytes.size(), "rows are missing");
  }
  Image image(head.size, channels);
  for (std::int64_t y = 0; y < head.size.height; ++y) {
    const std::int64_t at = head.is_upwards ? head.size.height - 1 - y : y;
    std::size_t offset = head.pixels_at + static_cast<std::size_t>(at * row_bytes);
    for (std::int64_t x = 0; x < head.size.width; ++x) {
      write_pixel(color_at(head, bytes, offset), channels, &image.at(y, x, 0));
      offset += static_cast<std::size_t>(head.bytes_a_pixel);
    }
  }
  return image;
}

}  // namespace brigade::image
