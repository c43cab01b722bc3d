#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace brigade::summary {

/// A picture in memory: 8 bits a channel, rows from the top, pixels from the left, the channels of
/// a pixel beside each other (TensorFlow: uint8 of [height, width, channels]).
struct ImageView {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA.
  std::span<const std::uint8_t> pixels;
};

/// The picture as a PNG file, without loss. Throws kInvalidArgument unless there are 1 to 4
/// channels, at least one pixel, no more than 1 GiB, and as many bytes as these ask for.
std::string encode_png(const ImageView& image);

}  // namespace brigade::summary
