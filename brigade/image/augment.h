#pragma once

#include "brigade/base/random.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"

namespace brigade::image {

// Random augmentation of training images. All randomness comes from the generator passed in. Pass
// the generator of the element (`data::ElementContext::rng`), so that results do not depend on
// threads or on resuming. `random_window`, `random_resized_window` and `random_flip` only choose
// parameters: pass windows to `decode_jpeg` and flips to `normalize`, which apply them at no extra
// cost.

/// A window of the given size; each position is equally likely. Throws kInvalidArgument if it is
/// larger than the image or has no pixels. TensorFlow: tf.image.random_crop.
Window random_window(const Size& image_size, const Size& window, base::CounterRng& rng);

/// Options of `random_resized_window`; the defaults are torchvision's RandomResizedCrop's.
struct ResizedWindowOptions {
  /// Fraction of the image's area that the window covers, uniform between the two.
  double min_area = 0.08;
  double max_area = 1;
  /// Width over height, uniform on a logarithmic scale.
  double min_aspect = 3.0 / 4;
  double max_aspect = 4.0 / 3;
  /// Maximum number of draws until a window fits into the image. After that, the largest centered
  /// window with an allowed aspect is used.
  int attempts = 10;
};

/// A window of random position, size and aspect, to be resized to the network's input size: the
/// usual augmentation for ImageNet. Like torchvision's RandomResizedCrop; TensorFlow's
/// tf.image.sample_distorted_bounding_box draws area and aspect slightly differently. Throws
/// kInvalidArgument unless 0 < min_area <= max_area <= 1, 0 < min_aspect <= max_aspect and
/// attempts >= 1.
Window random_resized_window(const Size& image_size, const ResizedWindowOptions& options,
                             base::CounterRng& rng);

/// kHorizontal with the given probability. Throws kInvalidArgument unless it is in [0, 1].
Flip random_flip(base::CounterRng& rng, double probability = 0.5);

/// The image mirrored left to right, and upside down.
Image flip_horizontally(const ImageView& image);
Image flip_vertically(const ImageView& image);

/// The maximum changes of `color_jitter`, each 0 (no change) or more.
struct ColorJitter {
  double brightness = 0;  ///< Adds or subtracts up to this much, on a scale of 0 to 1.
  double contrast = 0;    ///< Factor from 1 - contrast (at least 0) to 1 + contrast.
  double saturation = 0;  ///< Factor from 1 - saturation (at least 0) to 1 + saturation.
  double hue = 0;         ///< Rotates by up to this fraction of the circle; at most 0.5.
};

/// Changes brightness, contrast, saturation and hue in this order, each by an amount drawn
/// uniformly; always four draws. Throws kInvalidArgument for negative amounts, a hue above 0.5, and
/// for saturation or hue unless there are three channels. TensorFlow: tf.image.random_brightness,
/// random_contrast, random_saturation and random_hue; here values are rounded to bytes once, at the
/// end.
Image color_jitter(const ImageView& image, const ColorJitter& jitter, base::CounterRng& rng);

}  // namespace brigade::image
