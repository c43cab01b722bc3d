#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

/// Options of `decode_png`.
struct PngDecodeOptions {
  /// 1 (gray), 2 (gray and alpha), 3 (RGB), 4 (RGBA), or 0: as in the file, a palette as RGB.
  /// Alpha is dropped, not blended, if it is not requested; missing alpha is 255.
  std::int64_t channels = 0;
  /// Images with more pixels throw kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// Decodes a PNG file of any kind: 1 to 16 bits, gray, palette or color, interlaced or not. Of 16
/// bits the upper 8 are kept. The result equals that of tf.io.decode_png for uint8 bit for bit,
/// except that missing alpha in a file of less than 8 bits is 255 (1, 3 or 15 in TensorFlow).
///
/// Throws kDataLoss, with libpng's reason and the byte offset, if the file is corrupt or truncated;
/// kResourceExhausted if the image is larger than allowed; kInvalidArgument for a number of
/// channels not listed above. Thread-safety: a pure function.
Image decode_png(std::string_view bytes, const PngDecodeOptions& options = {});

/// Options of `encode_png`.
struct PngEncodeOptions {
  /// Stores differences of neighboring pixels where that makes the file smaller, as it does for
  /// photos; it takes longer.
  bool use_filters = true;
};

/// Encodes an image with 1 to 4 channels as a PNG file. Throws kInvalidArgument for other numbers
/// of channels and for an image without pixels. TensorFlow: tf.io.encode_png.
std::string encode_png(const ImageView& image, const PngEncodeOptions& options = {});

}  // namespace brigade::image
