#pragma once

#include <array>
#include <cstdint>

#include "brigade/image/image.h"
#include "brigade/image/resize.h"

namespace brigade::image {

// Shifts, shears and rotations of an image that keep its size: the geometric operations of
// RandAugment and TrivialAugment (brigade/image/augment_operations.h). Results are those of
// torchvision.transforms.functional on byte tensors: the same bytes for nearest, within 1 for
// bilinear, unless a point is so near to the edge between two pixels that torchvision's float32
// coordinates are on its other side. (Pillow's fixed-point coordinates give slightly different
// pixels.) Thread-safety: pure functions.

struct AffineOptions {
  /// kNearest, as torchvision's and AutoAugment's default, or kBilinear, which is smoother.
  Interpolation interpolation = Interpolation::kNearest;
  /// The color of pixels that come from outside the image, by channel. With kBilinear it blends
  /// with the image's edge.
  std::array<std::uint8_t, 4> fill = {0, 0, 0, 0};
};

/// Maps a pixel of the result to the point of the image that it shows:
/// (x, y) -> (xx * x + xy * y + x_offset, yx * x + yy * y + y_offset), x to the right, y down. The
/// center of the pixel in column 0 of row 0 is at (0.5, 0.5).
struct AffineMap {
  double xx = 1, xy = 0, x_offset = 0;
  double yx = 0, yy = 1, y_offset = 0;
};

/// The image under any such map. Throws kInvalidArgument for another interpolation than kNearest
/// and kBilinear, for a number that is not finite, and for an image without pixels; so do all
/// functions below. torchvision: affine.
Image affine(const ImageView& image, const AffineMap& map, const AffineOptions& options = {});

/// Moves row y to the left by `amount` * (y + 0.5) pixels: the top edge stays in place. Negative:
/// to the right. torchvision: ShearX of RandAugment.
Image shear_x(const ImageView& image, double amount, const AffineOptions& options = {});
/// Moves column x up by `amount` * (x + 0.5) pixels: the left edge stays in place.
Image shear_y(const ImageView& image, double amount, const AffineOptions& options = {});

/// Moves the image to the right by so many pixels. Fractions are cut off: 3.7 and 3 are the same,
/// as in torchvision.
Image translate_x(const ImageView& image, double pixels, const AffineOptions& options = {});
/// Moves the image down.
Image translate_y(const ImageView& image, double pixels, const AffineOptions& options = {});

/// Rotates the image around its center, counterclockwise. The corners are cut off. torchvision:
/// rotate.
Image rotate(const ImageView& image, double degrees, const AffineOptions& options = {});

}  // namespace brigade::image
