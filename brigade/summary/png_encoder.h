#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace brigade::summary {

/// An image in memory: 8 bits per channel, rows from the top, pixels from the left, interleaved
/// channels (TensorFlow: uint8 of [height, width, channels]).
struct ImageView {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA.
  std::span<const std::uint8_t> pixels;
};

/// Encodes the image as a PNG file (lossless). Throws kInvalidArgument unless there are 1 to 4
/// channels, at least one pixel, at most 1 GiB, and the matching number of bytes.
std::string encode_png(const ImageView& image);

}  // namespace brigade::summary
