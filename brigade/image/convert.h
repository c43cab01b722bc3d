#pragma once

#include "brigade/image/image.h"

namespace brigade::image {

/// Scales values of 0 to 255 to 0 to 1. TensorFlow: tf.image.convert_image_dtype(image,
/// tf.float32).
FloatImage to_float(const ImageView& image);

/// Scales values of 0 to 1 to 0 to 255: x becomes the integer part of x * 255.5, clamped to the
/// range. TensorFlow: tf.image.convert_image_dtype(image, tf.uint8, saturate=True).
Image to_uint8(const FloatImageView& image);

}  // namespace brigade::image
