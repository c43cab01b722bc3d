#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/image/image.h"

namespace brigade::image {

/// Images with more pixels than this are rejected, so that a small malicious file cannot exhaust
/// memory. (16,384 x 16,384 pixels take 768 MiB in RGB.)
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

/// The inverse cosine transform of a decoder. TensorFlow: dct_method.
enum class DctMethod {
  kFast,      ///< As TensorFlow decodes by default; differs from the exact one by a few units.
  kAccurate,  ///< dct_method="INTEGER_ACCURATE": a fifth slower.
};

/// Options of `decode_jpeg`.
struct JpegDecodeOptions {
  /// 1 (gray), 3 (RGB), 4 (RGB and an alpha of 255), or 0: as in the file, 1 or 3.
  std::int64_t channels = 0;
  /// Decodes to 1/ratio of height and width, rounded up: 1, 2, 4 or 8. Far cheaper than decoding
  /// and shrinking.
  std::int64_t ratio = 1;
  /// Decodes only this part of the (scaled) image. Pixels to the left and right are not
  /// transformed, rows above are skipped, and rows below are not read, so that corrupt data there
  /// goes unnoticed.
  std::optional<Window> window{};
  /// The transform: kFast equals what TensorFlow decodes by default.
  DctMethod dct = DctMethod::kFast;
  /// Limit for the whole stored image; more is kResourceExhausted.
  std::int64_t max_pixels = kMaxPixels;
};

/// Height and width, read from the file's header only. Throws kDataLoss if `bytes` do not start
/// like a JPEG file.
Size jpeg_size(std::string_view bytes);

/// Decodes a JPEG file, baseline or progressive; CMYK becomes RGB. The result equals that of
/// tf.io.decode_jpeg bit for bit, and with a window that of tf.image.decode_and_crop_jpeg: at the
/// window's left and right edges, colors may differ by a few units from those of the fully decoded
/// image, because the pixels beyond the edge are not available for smoothing. As in TensorFlow, the
/// EXIF orientation is ignored.
///
/// Throws kDataLoss, with libjpeg's reason and the byte offset, if the file is corrupt or truncated
/// (errors that the format can recover from, such as wrong bits inside a scan, give wrong pixels,
/// as in TensorFlow); kResourceExhausted if the image is larger than allowed; kInvalidArgument for
/// a window outside the image or an option value not listed above; kUnimplemented for CMYK as gray.
/// Thread-safety: a pure function.
Image decode_jpeg(std::string_view bytes, const JpegDecodeOptions& options = {});

/// The resolution of the color in an encoded image. TensorFlow: chroma_downsampling.
enum class ChromaSubsampling {
  kHalf,  ///< Chroma at half the height and width (4:2:0).
  kNone,  ///< Chroma at every pixel (4:4:4).
};

/// Options of `encode_jpeg`.
struct JpegEncodeOptions {
  /// 1 to 100.
  int quality = 95;
  /// kHalf makes smaller files.
  ChromaSubsampling subsampling = ChromaSubsampling::kHalf;
  /// Whether the file has one scan, or several of increasing detail. TensorFlow: progressive.
  enum class Scans { kBaseline, kProgressive } scans = Scans::kBaseline;
};

/// Encodes an image with 1 or 3 channels as a JPEG file. Throws kInvalidArgument for other
/// channels, a quality out of range, or a side of more than 65,500 pixels. TensorFlow:
/// tf.io.encode_jpeg.
std::string encode_jpeg(const ImageView& image, const JpegEncodeOptions& options = {});

}  // namespace brigade::image
