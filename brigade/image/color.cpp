#include "brigade/image/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/image/normalize.h"

namespace brigade::image {
namespace {

void check_rgb(const FloatImage& image, std::string_view what) {
  if (image.channels() == 3) return;
  refuse(what, ": the image has ", image.channels(), " channels; it must have 3");
}

std::int64_t pixels_of(const FloatImage& image) {
  return image.height() * image.width();
}

/// The hue of a pixel, from 0 (red) to 6 (red again).
float hue_of(const float* rgb, float largest, float range) {
  if (range <= 0) return 0;
  float hue = 0;
  if (rgb[0] == largest) {
    hue = (rgb[1] - rgb[2]) / range;
  } else if (rgb[1] == largest) {
    hue = (rgb[2] - rgb[0]) / range + 2;
  } else {
    hue = (rgb[0] - rgb[1]) / range + 4;
  }
  return hue < 0 ? hue + 6 : hue;
}

/// The height of a channel above the smallest one, as a fraction of the range, at `distance` from
/// the channel's own hue: 1 up to a distance of 1, then decreasing, 0 from 2 on.
float height_at(float hue, float own_hue) {
  const float distance = std::abs(hue - own_hue);
  return std::clamp(2 - std::min(distance, 6 - distance), 0.0F, 1.0F);
}

}  // namespace

FloatImage adjust_brightness(FloatImage image, float delta) {
  float* values = image.row(0);
  for (std::int64_t i = 0; i < pixels_of(image) * image.channels(); ++i) values[i] += delta;
  return image;
}

FloatImage adjust_contrast(FloatImage image, float factor) {
  const std::int64_t channels = image.channels();
  std::array<double, 4> sums{};
  float* values = image.row(0);
  const std::int64_t n = pixels_of(image) * channels;
  for (std::int64_t i = 0; i < n; i += channels) {
    for (std::int64_t c = 0; c < channels; ++c) sums[static_cast<std::size_t>(c)] += values[i + c];
  }
  std::array<float, 4> means{};
  for (std::size_t c = 0; c < means.size(); ++c) {
    means[c] = static_cast<float>(sums[c] / static_cast<double>(pixels_of(image)));
  }
  for (std::int64_t i = 0; i < n; i += channels) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float mean = means[static_cast<std::size_t>(c)];
      values[i + c] = (values[i + c] - mean) * factor + mean;
    }
  }
  return image;
}

FloatImage adjust_saturation(FloatImage image, float factor) {
  check_rgb(image, "adjust_saturation");
  float* rgb = image.row(0);
  for (std::int64_t i = 0; i < pixels_of(image); ++i, rgb += 3) {
    const float largest = std::max({rgb[0], rgb[1], rgb[2]});
    const float range = largest - std::min({rgb[0], rgb[1], rgb[2]});
    if (range <= 0 || largest <= 0) continue;
    const float saturation = range / largest;
    const float stretch = std::clamp(saturation * factor, 0.0F, 1.0F) / saturation;
    for (int c = 0; c < 3; ++c) rgb[c] = largest - (largest - rgb[c]) * stretch;
  }
  return image;
}

FloatImage adjust_hue(FloatImage image, float delta) {
  check_rgb(image, "adjust_hue");
  if (!(delta >= -1 && delta <= 1)) {
    refuse("adjust_hue: delta is ", delta, "; it must be in [-1, 1]");
  }
  float* rgb = image.row(0);
  for (std::int64_t i = 0; i < pixels_of(image); ++i, rgb += 3) {
    const float largest = std::max({rgb[0], rgb[1], rgb[2]});
    const float smallest = std::min({rgb[0], rgb[1], rgb[2]});
    const float range = largest - smallest;
    float hue = hue_of(rgb, largest, range) + 6 * delta;
    if (hue < 0) hue += 6;
    if (hue >= 6) hue -= 6;
    for (int c = 0; c < 3; ++c) {
      rgb[c] = smallest + range * height_at(hue, 2 * static_cast<float>(c));
    }
  }
  return image;
}

Image adjust_brightness(const ImageView& image, float delta) {
  return to_uint8(adjust_brightness(to_float(image), delta));
}

Image adjust_contrast(const ImageView& image, float factor) {
  return to_uint8(adjust_contrast(to_float(image), factor));
}

Image adjust_saturation(const ImageView& image, float factor) {
  return to_uint8(adjust_saturation(to_float(image), factor));
}

Image adjust_hue(const ImageView& image, float delta) {
  return to_uint8(adjust_hue(to_float(image), delta));
}

}  // namespace brigade::image
