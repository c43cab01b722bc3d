#pragma once

#include <string_view>

#include "brigade/image/image.h"

namespace brigade::image {

/// How values between pixels are found. All are those of tf.image.resize without antialias: pixel
/// centers lie at half coordinates, and what would lie outside is left out. Only kArea averages
/// over all pixels of an image that is shrunk; the others sample it.
enum class Interpolation {
  kBilinear,       ///< From the two nearest pixels each way.
  kNearest,        ///< The nearest pixel.
  kBicubic,        ///< From four, by Keys' cubic (a = -0.5).
  kArea,           ///< The mean over the area that a new pixel covers: best for shrinking.
  kLanczos3,       ///< From six, by a windowed sinc.
  kLanczos5,       ///< From ten.
  kGaussian,       ///< From three, with deviation 0.5: blurs a little.
  kMitchellCubic,  ///< From four, by Mitchell and Netravali's cubic.
};

/// "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian" or "mitchellcubic":
/// TensorFlow's names.
std::string_view to_string(Interpolation interpolation);
/// The other way; upper-case letters are taken too. Throws kInvalidArgument, naming all, for
/// another name.
Interpolation interpolation_of(std::string_view name);

/// The image at another size, each side stretched or shrunk on its own: values keep their scale
/// (0 to 255 of an `Image`), and those of the cubic and Lanczos kinds may overshoot it. To keep the
/// aspect ratio, resize a window of it (brigade/image/crop.h). Throws kInvalidArgument for a
/// image or size without pixels. TensorFlow: tf.image.resize.
/// Thread-safety: pure functions.
FloatImage resize(const ImageView& image, const Size& size,
                  Interpolation interpolation = Interpolation::kBilinear);
FloatImage resize(const FloatImageView& image, const Size& size,
                  Interpolation interpolation = Interpolation::kBilinear);

/// The same, rounded to the nearest whole number and limited to 0 to 255.
Image resize_to_uint8(const ImageView& image, const Size& size,
                      Interpolation interpolation = Interpolation::kBilinear);

}  // namespace brigade::image
