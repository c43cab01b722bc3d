#pragma once

#include <cstdint>

#include "brigade/image/image.h"

namespace brigade::image {

// Windows say which part of an image to take; `view.window(w)` takes it without a copy, and
// `decode_jpeg` decodes no more than it.

/// The window in the middle of an image with `fraction` of its height and width, (0, 1]. Throws
/// kInvalidArgument otherwise. TensorFlow: tf.image.central_crop.
Window central_window(const Size& image_size, double fraction);

/// The window of a given size in the middle of an image; of two middles, the upper left one.
/// Throws kInvalidArgument if it is larger than the image or has no pixels.
Window central_window(const Size& image_size, const Size& window);

/// The largest window in the middle of an image that has the aspect ratio of `target`: to resize
/// to that without distortion. TensorFlow: keras.preprocessing.image.smart_resize, and
/// `crop_to_aspect_ratio`. Throws kInvalidArgument if either has no pixels.
Window window_of_aspect(const Size& image_size, const Size& target);

/// The image with zeros around it, so that it lies at (top, left) of a larger one of size
/// `whole`. Throws kInvalidArgument if it does not fit. TensorFlow: tf.image.pad_to_bounding_box.
Image pad(const ImageView& image, std::int64_t top, std::int64_t left, const Size& whole);

/// The image in the middle of one of size `size`, cut where it is larger, with zeros where it is
/// smaller. TensorFlow: tf.image.resize_with_crop_or_pad.
Image crop_or_pad(const ImageView& image, const Size& size);

}  // namespace brigade::image
