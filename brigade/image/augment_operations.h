#pragma once

#include <array>
#include <string_view>

#include "brigade/image/affine.h"
#include "brigade/image/image.h"

namespace brigade::image {

// The operations of AutoAugment and its successors on images of bytes: each has a magnitude, and is
// a pure function of the image and the magnitude. Results are torchvision.transforms.functional's
// on byte tensors, to the bit. Pillow, which the papers used, rounds grays instead of truncating
// them; and `adjust_*` (brigade/image/color.h) are TensorFlow's, with other meanings.
// Thread-safety: pure functions.

/// Blends with a black image: 0 is black, 1 the image, more than 1 brighter. Throws
/// kInvalidArgument for a negative factor, as the other three. torchvision: adjust_brightness.
Image enhance_brightness(const ImageView& image, double factor);
/// Blends with the gray image: 0 is gray, 1 the image. Images of one channel do not change. Throws
/// kInvalidArgument unless there are 1 or 3 channels. torchvision: adjust_saturation.
Image enhance_color(const ImageView& image, double factor);
/// Blends with the mean of all gray values: 0 is one gray, 1 the image. Throws kInvalidArgument
/// unless there are 1 or 3 channels. torchvision: adjust_contrast.
Image enhance_contrast(const ImageView& image, double factor);
/// Blends with a blurred image: 0 is blurred, 1 the image, more than 1 sharper. The outermost
/// pixels are not blurred. torchvision: adjust_sharpness.
Image enhance_sharpness(const ImageView& image, double factor);

/// Keeps the highest `bits` bits of every value. Throws kInvalidArgument unless they are 0 to 8.
Image posterize(const ImageView& image, int bits);
/// Inverts the values that are at least `threshold`: 0 inverts all, 256 none.
Image solarize(const ImageView& image, double threshold);
/// Stretches each channel so that its smallest value becomes 0 and its largest 255.
Image autocontrast(const ImageView& image);
/// Spreads each channel's values so that all are about equally frequent: histogram equalization.
Image equalize(const ImageView& image);

namespace internal {
/// Throws kInvalidArgument, naming `what`, unless the image has 1 or 3 channels.
void check_gray_or_rgb(const ImageView& image, std::string_view what);
}  // namespace internal

/// The 14 operations of RandAugment and TrivialAugment.
enum class AugmentOperation {
  kIdentity,
  kShearX,        ///< `shear_x` by the magnitude
  kShearY,        ///< `shear_y`
  kTranslateX,    ///< `translate_x` by the magnitude, in pixels
  kTranslateY,    ///< `translate_y`
  kRotate,        ///< `rotate` by the magnitude, in degrees
  kBrightness,    ///< `enhance_brightness` by 1 + magnitude
  kColor,         ///< `enhance_color` by 1 + magnitude
  kContrast,      ///< `enhance_contrast` by 1 + magnitude
  kSharpness,     ///< `enhance_sharpness` by 1 + magnitude
  kPosterize,     ///< `posterize` to as many bits as the magnitude
  kSolarize,      ///< `solarize` with the magnitude as threshold
  kAutocontrast,  ///< without a magnitude, as kEqualize and kIdentity
  kEqualize,
};

inline constexpr std::array kAugmentOperations = {
    AugmentOperation::kIdentity,     AugmentOperation::kShearX,     AugmentOperation::kShearY,
    AugmentOperation::kTranslateX,   AugmentOperation::kTranslateY, AugmentOperation::kRotate,
    AugmentOperation::kBrightness,   AugmentOperation::kColor,      AugmentOperation::kContrast,
    AugmentOperation::kSharpness,    AugmentOperation::kPosterize,  AugmentOperation::kSolarize,
    AugmentOperation::kAutocontrast, AugmentOperation::kEqualize};

/// "identity", "shear_x", ..., "equalize".
std::string_view to_string(AugmentOperation operation);

/// One operation with its magnitude.
struct Augmentation {
  AugmentOperation operation = AugmentOperation::kIdentity;
  double magnitude = 0;
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

/// The image after that operation. Throws what the operation throws; affine operations use
/// `options`.
Image augmented(const ImageView& image, const Augmentation& augmentation,
                const AffineOptions& options = {});

}  // namespace brigade::image
