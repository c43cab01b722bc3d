#include "brigade/image/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::image {
namespace {

void check_affine(const ImageView& image, const AffineMap& map, const AffineOptions& options) {
  internal::checked_values(image.size(), image.channels());
  if (options.interpolation != Interpolation::kNearest &&
      options.interpolation != Interpolation::kBilinear) {
    refuse("affine: the interpolation is ", to_string(options.interpolation),
           "; it must be nearest or bilinear");
  }
  const bool is_finite = std::isfinite(map.xx) && std::isfinite(map.xy) && std::isfinite(map.yx) &&
                         std::isfinite(map.yy) && std::isfinite(map.x_offset) &&
                         std::isfinite(map.y_offset);
  check_argument(is_finite, "affine: the map has a number that is not finite");
}

/// Points far outside the image, which do not fit into an integer, become points just outside.
std::int64_t floor_within(double coordinate, std::int64_t extent) {
  return static_cast<std::int64_t>(
      std::floor(std::clamp(coordinate, -2.0, static_cast<double>(extent) + 1)));
}

/// The pixels of an image and the fill color around it.
class Surface {
 public:
  Surface(const ImageView& image, const std::array<std::uint8_t, 4>& fill)
      : image_(image), fill_(fill) {}

  const std::uint8_t* at(std::int64_t y, std::int64_t x) const {
    const bool is_inside = y >= 0 && y < image_.height() && x >= 0 && x < image_.width();
    return is_inside ? &image_.at(y, x, 0) : fill_.data();
  }

  /// `x` and `y` are the point's distances from the center of the pixel in column 0 of row 0.
  void nearest(double y, double x, std::uint8_t* to) const {
    std::copy_n(at(floor_within(y + 0.5, image_.height()), floor_within(x + 0.5, image_.width())),
                image_.channels(), to);
  }

  void bilinear(double y, double x, std::uint8_t* to) const {
    const std::int64_t top = floor_within(y, image_.height());
    const std::int64_t left = floor_within(x, image_.width());
    const auto down = static_cast<float>(std::clamp(y - static_cast<double>(top), 0.0, 1.0));
    const auto right = static_cast<float>(std::clamp(x - static_cast<double>(left), 0.0, 1.0));
    const std::array<const std::uint8_t*, 4> pixels = {at(top, left), at(top, left + 1),
                                                       at(top + 1, left), at(top + 1, left + 1)};
    const std::array<float, 4> weights = {(1 - down) * (1 - right), (1 - down) * right,
                                          down * (1 - right), down * right};
    for (std::int64_t c = 0; c < image_.channels(); ++c) {
      float value = 0.5F;  // rounds
      for (std::size_t i = 0; i < pixels.size(); ++i)
        value += weights[i] * static_cast<float>(pixels[i][c]);
      to[c] = static_cast<std::uint8_t>(std::min(value, 255.0F));
    }
  }

 private:
  const ImageView image_;
  const std::array<std::uint8_t, 4> fill_;
};

template <class Sample>
Image sampled(const ImageView& image, const AffineMap& map, const Sample& sample) {
  Image result(image.size(), image.channels());
  for (std::int64_t row = 0; row < image.height(); ++row) {
    const double y = static_cast<double>(row) + 0.5;
    for (std::int64_t column = 0; column < image.width(); ++column) {
      const double x = static_cast<double>(column) + 0.5;
      sample(map.yx * x + map.yy * y + map.y_offset - 0.5,
             map.xx * x + map.xy * y + map.x_offset - 0.5, &result.at(row, column, 0));
    }
  }
  return result;
}

}  // namespace

Image affine(const ImageView& image, const AffineMap& map, const AffineOptions& options) {
  check_affine(image, map, options);
  const Surface surface(image, options.fill);
  if (options.interpolation == Interpolation::kNearest)
    return sampled(image, map,
                   [&](double y, double x, std::uint8_t* to) { surface.nearest(y, x, to); });
  return sampled(image, map,
                 [&](double y, double x, std::uint8_t* to) { surface.bilinear(y, x, to); });
}

Image shear_x(const ImageView& image, double amount, const AffineOptions& options) {
  return affine(image, {.xy = amount}, options);
}

Image shear_y(const ImageView& image, double amount, const AffineOptions& options) {
  return affine(image, {.yx = amount}, options);
}

Image translate_x(const ImageView& image, double pixels, const AffineOptions& options) {
  return affine(image, {.x_offset = -std::trunc(pixels)}, options);
}

Image translate_y(const ImageView& image, double pixels, const AffineOptions& options) {
  return affine(image, {.y_offset = -std::trunc(pixels)}, options);
}

Image rotate(const ImageView& image, double degrees, const AffineOptions& options) {
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double x = static_cast<double>(image.width()) / 2;
  const double y = static_cast<double>(image.height()) / 2;
  return affine(image,
                {.xx = cosine,
                 .xy = -sine,
                 .x_offset = x - cosine * x + sine * y,
                 .yx = sine,
                 .yy = cosine,
                 .y_offset = y - sine * x - cosine * y},
                options);
}

}  // namespace brigade::image
