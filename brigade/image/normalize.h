#pragma once

#include <array>
#include <span>
#include <vector>

#include "brigade/image/image.h"

namespace brigade::image {

/// Whether an image is mirrored.
enum class Flip {
  kNone,
  kHorizontal,  ///< Left becomes right.
};

/// Options of `normalize`.
struct NormalizeOptions {
  /// Subtracted from each channel after scaling its values to 0 to 1. Only the first entries, one
  /// per channel of the image, are used.
  std::array<float, 4> mean = {0, 0, 0, 0};
  /// Divides the result of the subtraction; greater than 0.
  std::array<float, 4> deviation = {1, 1, 1, 1};
  /// The order of the result's dimensions.
  Layout layout = Layout::kChannelsFirst;
  /// Mirrors the image in the same pass.
  Flip flip = Flip::kNone;
};

/// The means and deviations of ImageNet's RGB images that most published models were trained
/// with.
inline constexpr std::array<float, 4> kImageNetMean = {0.485F, 0.456F, 0.406F, 0};
inline constexpr std::array<float, 4> kImageNetDeviation = {0.229F, 0.224F, 0.225F, 1};

/// Converts bytes to network input in one pass: (x / 255 - mean) / deviation of each channel,
/// optionally mirrored, in either layout, written to `to`. The same bits on every machine.
///
/// Throws kInvalidArgument unless `to` has exactly height x width x channels values, and if a
/// deviation is not greater than 0. Thread-safety: a pure function but for `to`.
void normalize(const ImageView& image, const NormalizeOptions& options, std::span<float> to);

/// As above, returning a new vector.
std::vector<float> normalize(const ImageView& image, const NormalizeOptions& options = {});

/// Copies values unchanged from [H, W, C] to [C, H, W]. Throws kInvalidArgument unless `to` has
/// exactly as many values.
void to_channels_first(const FloatImageView& image, std::span<float> to);

/// Scales values of 0 to 255 to 0 to 1. TensorFlow: tf.image.convert_image_dtype(image,
/// tf.float32).
FloatImage to_float(const ImageView& image);

/// Scales values of 0 to 1 to 0 to 255: x becomes the integer part of x * 255.5, clamped to the
/// range. TensorFlow: tf.image.convert_image_dtype(image, tf.uint8, saturate=True).
Image to_uint8(const FloatImageView& image);

}  // namespace brigade::image
