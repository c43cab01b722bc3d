#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

/// The file formats that images are read from.
enum class Format { kJpeg, kPng, kBmp };

/// "JPEG", "PNG" or "BMP".
std::string_view to_string(Format format);

/// The format of a file, detected from its first bytes; file names are ignored. Throws
/// kUnimplemented for GIF and kDataLoss for everything else, naming the supported formats.
Format format_of(std::string_view bytes);

/// Options of `decode_image`.
struct DecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGBA), or 0: as in the file.
  std::int64_t channels = 0;
  /// Images with more pixels throw kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// Decodes a JPEG, PNG or BMP file with `decode_jpeg`, `decode_png` or `decode_bmp`. Throws as they
/// do and as `format_of`. TensorFlow: tf.io.decode_image, without GIF. Thread-safety: a pure
/// function.
Image decode_image(std::string_view bytes, const DecodeOptions& options = {});

}  // namespace brigade::image
