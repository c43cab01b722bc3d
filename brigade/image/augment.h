#pragma once

#include <cstdint>

#include "brigade/base/random.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"

namespace brigade::image {

// Random changes of training images. All randomness comes from the generator passed in; give the
// one of the element (`data::ElementContext::rng`), so that threads and resuming change nothing.
// Those that choose say what to do, and cost nothing if another step does it anyway: windows are
// for `decode_jpeg`, flips for `normalize`.

/// A window of the given size, each place equally likely. Throws kInvalidArgument if it is larger
/// than the image or has no pixels. TensorFlow: tf.image.random_crop.
Window random_window(const Size& image_size, const Size& window, base::CounterRng& rng);

struct ResizedWindowOptions {
  /// Share of the image's area that the window covers, uniform between the two.
  double min_area = 0.08;
  double max_area = 1;
  /// Width over height, uniform on a logarithmic scale.
  double min_aspect = 3.0 / 4;
  double max_aspect = 4.0 / 3;
  /// Draws until one fits into the image; then the largest window in the middle is taken that
  /// has an allowed aspect.
  int attempts = 10;
};

/// A window of random place, size and aspect, to be resized to what the network takes: the usual
/// augmentation for ImageNet. As torchvision's RandomResizedCrop; TensorFlow's
/// tf.image.sample_distorted_bounding_box draws area and aspect in slightly other ways. Throws
/// kInvalidArgument unless 0 < min_area <= max_area <= 1, 0 < min_aspect <= max_aspect and
/// attempts >= 1.
Window random_resized_window(const Size& image_size, const ResizedWindowOptions& options,
                             base::CounterRng& rng);

/// kHorizontal with the given probability. Throws kInvalidArgument unless it lies in [0, 1].
Flip random_flip(base::CounterRng& rng, double probability = 0.5);

/// The image mirrored left to right, and upside down.
Image flip_horizontally(const ImageView& image);
Image flip_vertically(const ImageView& image);

/// How far `color_jitter` goes, each 0 (not at all) or more.
struct ColorJitter {
  double brightness = 0;  ///< Adds up to this much, on a scale of 0 to 1, or takes it away.
  double contrast = 0;    ///< Times 1 - contrast (but at least 0) to 1 + contrast.
  double saturation = 0;  ///< Times 1 - saturation (but at least 0) to 1 + saturation.
  double hue = 0;         ///< Turns by up to this share of the circle; at most 0.5.
};

/// Changes brightness, contrast, saturation and hue in this order, each by an amount drawn
/// uniformly; always four draws. Throws kInvalidArgument for negative amounts, a hue above 0.5, and
/// for saturation or hue unless there are three channels. TensorFlow: tf.image.random_brightness
/// and its kin; values are rounded to bytes once, at the end.
Image color_jitter(const ImageView& image, const ColorJitter& jitter, base::CounterRng& rng);

}  // namespace brigade::image
