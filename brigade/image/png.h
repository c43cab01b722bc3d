#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

struct PngDecodeOptions {
  /// 1 (gray), 2 (gray and alpha), 3 (RGB), 4 (RGBA), or 0: as the file has it, a palette as RGB.
  /// Alpha that is not asked for is dropped, not blended; alpha that is missing is 255.
  std::int64_t channels = 0;
  /// More is kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// The image in a PNG file of any kind: 1 to 16 bits, gray, palette or color, interlaced or not.
/// Of 16 bits the upper 8 are kept. Bit for bit what tf.io.decode_png gives for uint8, but for
/// alpha that is missing in a file of less than 8 bits, which there is 1, 3 or 15.
///
/// Throws kDataLoss, with libpng's reason and the byte, if the file is broken or cut short;
/// kResourceExhausted if the image is larger than allowed; kInvalidArgument for other channels
/// than those named. Thread-safety: a pure function.
Image decode_png(std::string_view bytes, const PngDecodeOptions& options = {});

/// A PNG file of an image with 1 to 4 channels. TensorFlow: tf.io.encode_png.
std::string encode_png(const ImageView& image);

}  // namespace brigade::image
