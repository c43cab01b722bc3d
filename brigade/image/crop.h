#pragma once

#include <cstdint>

#include "brigade/image/image.h"

namespace brigade::image {

// A `Window` selects a part of an image. `view.window(w)` returns that part without a copy, and
// `decode_jpeg` can decode only that part.

/// The centered window with `fraction` of its height and width, (0, 1]. Throws
/// kInvalidArgument otherwise. TensorFlow: tf.image.central_crop.
Window central_window(const Size& image_size, double fraction);

/// The centered window of a given size; of two possible centers, the upper left one.
/// Throws kInvalidArgument if it is larger than the image or has no pixels.
Window central_window(const Size& image_size, const Size& window);

/// The largest centered window with the aspect ratio of `target`, to resize to that size without
/// distortion. TensorFlow: keras.preprocessing.image.smart_resize, and
/// `crop_to_aspect_ratio`. Throws kInvalidArgument if either has no pixels.
Window window_of_aspect(const Size& image_size, const Size& target);

/// Pads the image with zeros to the size `whole`; the image is placed at (top, left). Throws
/// kInvalidArgument if it does not fit. TensorFlow: tf.image.pad_to_bounding_box.
Image pad(const ImageView& image, std::int64_t top, std::int64_t left, const Size& whole);

/// The image cropped or padded with zeros around its center to `size`. TensorFlow:
/// tf.image.resize_with_crop_or_pad.
Image crop_or_pad(const ImageView& image, const Size& size);

}  // namespace brigade::image
