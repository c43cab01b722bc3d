#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

/// Options of `decode_bmp`.
struct BmpDecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGBA), or 0: as in the file: 1 for a gray palette, 3 for a colored
  /// palette and for 24 bits, 4 for 32 bits. Alpha is dropped if it is not requested; missing alpha
  /// is 255.
  std::int64_t channels = 0;
  /// Images with more pixels throw kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// Decodes an uncompressed Windows bitmap of 8 bits per pixel with a palette, or of 24 or 32 bits,
/// stored bottom-up or top-down. For 24 and 32 bits the result equals that of tf.io.decode_bmp. For
/// 8 bits the palette is applied (TensorFlow ignores it and reads gray).
///
/// Throws kDataLoss, with the byte offset, if the file is corrupt or truncated; kUnimplemented for
/// other kinds of bitmaps; kResourceExhausted and kInvalidArgument as `decode_png`. Thread-safety:
/// a pure function.
Image decode_bmp(std::string_view bytes, const BmpDecodeOptions& options = {});

}  // namespace brigade::image
