#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/image/image.h"

namespace brigade::image {

/// Images with more pixels than this are refused, so that a few hostile bytes cannot take all
/// memory. (One of 16,384 x 16,384 takes 768 MiB in RGB.)
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

enum class DctMethod {
  kFast,      ///< As TensorFlow decodes by default; differs from the exact one by a few units.
  kAccurate,  ///< dct_method="INTEGER_ACCURATE": a fifth slower.
};

struct JpegDecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGB and an alpha of 255), or 0: as the file has it, 1 or 3.
  std::int64_t channels = 0;
  /// Decodes to 1/ratio of height and width, rounded up: 1, 2, 4 or 8. Far cheaper than decoding
  /// and shrinking.
  std::int64_t ratio = 1;
  /// Decodes only this part of the (scaled) image. What lies beside it is not transformed, what
  /// lies above is only read past, and what lies below is not looked at, so that a file broken
  /// there passes.
  std::optional<Window> window{};
  DctMethod dct = DctMethod::kFast;
  /// Of the whole image as stored; more is kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// Height and width, from the file's head alone. Throws kDataLoss if `bytes` do not begin as a
/// JPEG file does.
Size jpeg_size(std::string_view bytes);

/// The image in a JPEG file, baseline or progressive; CMYK becomes RGB. Bit for bit what
/// tf.io.decode_jpeg gives, and with a window what tf.image.decode_and_crop_jpeg gives: at the
/// window's left and right edge colors may differ by a few units from those of the image decoded
/// whole, because what lies beyond is not there to be smoothed with. The orientation in EXIF is
/// ignored, as there.
///
/// Throws kDataLoss, with libjpeg's reason and the byte, if the file is broken or cut short (damage
/// that the format can resume from, as wrong bits inside of a scan, gives wrong pixels, as in
/// TensorFlow); kResourceExhausted if the image is larger than allowed; kInvalidArgument for a
/// window outside the image or other options than those named; kUnimplemented for CMYK as gray.
/// Thread-safety: a pure function.
Image decode_jpeg(std::string_view bytes, const JpegDecodeOptions& options = {});

enum class ChromaSubsampling {
  kHalf,  ///< Colors at half the height and width (4:2:0).
  kNone,  ///< Colors at every pixel (4:4:4).
};

struct JpegEncodeOptions {
  /// 1 to 100.
  int quality = 95;
  ChromaSubsampling subsampling = ChromaSubsampling::kHalf;
  enum class Scans { kBaseline, kProgressive } scans = Scans::kBaseline;
};

/// A JPEG file of an image with 1 or 3 channels. Throws kInvalidArgument for other channels, a
/// quality out of range, or a side of more than 65,500 pixels. TensorFlow: tf.io.encode_jpeg.
std::string encode_jpeg(const ImageView& image, const JpegEncodeOptions& options = {});

}  // namespace brigade::image
