#include "brigade/image/convert.h"

#include "brigade/image/vector_clones.h"

namespace brigade::image {
namespace {

BRIGADE_IMAGE_VECTOR_CLONES
void scale_down(const std::uint8_t* __restrict from, float* __restrict to, std::int64_t n) {
  constexpr float kScale = 1.0F / 255;
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * kScale;
}

BRIGADE_IMAGE_VECTOR_CLONES
void scale_up(const float* __restrict from, std::uint8_t* __restrict to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float scaled = from[i] * 255.5F;
    const float limited = scaled > 0 ? (scaled < 255 ? scaled : 255) : 0;  // NaN becomes 0
    to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(limited));
  }
}

}  // namespace

FloatImage to_float(const ImageView& image) {
  FloatImage result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    scale_down(image.row(y), result.row(y), image.row_values());
  }
  return result;
}

Image to_uint8(const FloatImageView& image) {
  Image result(image.size(), image.channels());
  for (std::int64_t y = 0; y < image.height(); ++y) {
    scale_up(image.row(y), result.row(y), image.row_values());
  }
  return result;
}

}  // namespace brigade::image
