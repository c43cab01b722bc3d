#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

struct BmpDecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGBA), or 0: as the file has it: 1 of a gray palette, 3 of a colored
  /// one and of 24 bits, 4 of 32 bits. Alpha that is not asked for is dropped, alpha that is
  /// missing is 255.
  std::int64_t channels = 0;
  /// More is kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// The image in an uncompressed Windows bitmap of 8 bits with a palette, 24 or 32 bits a pixel,
/// stored upwards or downwards. Of 24 and 32 bits it gives what tf.io.decode_bmp gives; the palette
/// of 8 bits, which TensorFlow takes for gray whatever it says, is looked up.
///
/// Throws kDataLoss, with the byte, if the file is broken or cut short; kUnimplemented for other
/// kinds; kResourceExhausted and kInvalidArgument as `decode_png`. Thread-safety: a pure function.
Image decode_bmp(std::string_view bytes, const BmpDecodeOptions& options = {});

}  // namespace brigade::image
