#pragma once

#include <string_view>

#include "brigade/image/image.h"

namespace brigade::image {

/// Interpolation methods, as in tf.image.resize without antialias: pixel centers are at half
/// coordinates, and pixels outside the image are ignored. When shrinking, only kArea averages over
/// all pixels; the other methods sample them.
enum class Interpolation {
  kBilinear,       ///< From the two nearest pixels along each axis.
  kNearest,        ///< The nearest pixel.
  kBicubic,        ///< From four pixels, by Keys' cubic (a = -0.5).
  kArea,           ///< The mean over the area that a new pixel covers: best for shrinking.
  kLanczos3,       ///< From six pixels, by a windowed sinc.
  kLanczos5,       ///< From ten pixels.
  kGaussian,       ///< From three pixels, with deviation 0.5: blurs slightly.
  kMitchellCubic,  ///< From four pixels, by Mitchell and Netravali's cubic.
};

/// "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian" or "mitchellcubic":
/// TensorFlow's names.
std::string_view to_string(Interpolation interpolation);
/// Parses a name, ignoring case. Throws kInvalidArgument, listing all names, for another name.
Interpolation interpolation_of(std::string_view name);

/// Resizes the image; height and width are scaled independently. Values keep their range (0 to 255
/// for an `Image`), which the cubic and Lanczos methods may exceed. To keep the aspect ratio,
/// resize a window of the image (brigade/image/crop.h). Throws kInvalidArgument for an image or a
/// size without pixels. TensorFlow: tf.image.resize. Thread-safety: pure functions.
FloatImage resize(const ImageView& image, const Size& size,
                  Interpolation interpolation = Interpolation::kBilinear);
FloatImage resize(const FloatImageView& image, const Size& size,
                  Interpolation interpolation = Interpolation::kBilinear);

/// As `resize`, rounded to the nearest integer and clamped to 0 to 255.
Image resize_to_uint8(const ImageView& image, const Size& size,
                      Interpolation interpolation = Interpolation::kBilinear);

}  // namespace brigade::image
