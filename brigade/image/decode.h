#pragma once

#include <cstdint>
#include <string_view>

#include "brigade/image/image.h"
#include "brigade/image/jpeg.h"

namespace brigade::image {

/// The kinds of files that images are read from.
enum class Format { kJpeg, kPng, kBmp };

/// "JPEG", "PNG" or "BMP".
std::string_view to_string(Format format);

/// Which kind of file `bytes` are, by how they begin; names are not looked at. Throws
/// kUnimplemented for GIF and kDataLoss for everything else, naming the formats that can be read.
Format format_of(std::string_view bytes);

struct DecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGBA), or 0: as the file has it.
  std::int64_t channels = 0;
  /// More is kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// The image in a JPEG, PNG or BMP file: `decode_jpeg`, `decode_png` or `decode_bmp`, whichever
/// fits. Throws as they do and as `format_of`. TensorFlow: tf.io.decode_image, without GIF.
/// Thread-safety: a pure function.
Image decode_image(std::string_view bytes, const DecodeOptions& options = {});

}  // namespace brigade::image
