#include "brigade/image/decode.h"

#include <array>

#include "brigade/base/error.h"
#include "brigade/image/bmp.h"
#include "brigade/image/png.h"

namespace brigade::image {

std::string_view to_string(Format format) {
  constexpr std::array<std::string_view, 3> kFormatNames = {"JPEG", "PNG", "BMP"};
  return kFormatNames.at(static_cast<std::size_t>(format));
}

Format format_of(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return Format::kJpeg;
  if (bytes.starts_with("\x89PNG")) return Format::kPng;
  if (bytes.starts_with("BM")) return Format::kBmp;
  if (bytes.starts_with("GIF8")) {
    throw Error(ErrorCode::kUnimplemented,
                "GIF is not supported; convert the image to PNG, JPEG or BMP");
  }
  throw Error(ErrorCode::kDataLoss, "The file of ", bytes.size(),
              " bytes is not an image in a supported format: JPEG, PNG or BMP");
}

Image decode_image(std::string_view bytes, const DecodeOptions& options) {
  const auto& [channels, max_pixels] = options;
  switch (format_of(bytes)) {
    case Format::kJpeg:
      return decode_jpeg(bytes, {.channels = channels, .max_pixels = max_pixels});
    case Format::kPng:
      return decode_png(bytes, {.channels = channels, .max_pixels = max_pixels});
    case Format::kBmp:
      return decode_bmp(bytes, {.channels = channels, .max_pixels = max_pixels});
  }
  throw Error(ErrorCode::kInternal, "decode_image: a format without a decoder");
}

}  // namespace brigade::image
