#pragma once

#include "brigade/image/image.h"

namespace brigade::image {

/// 0 to 255 becomes 0 to 1. TensorFlow: tf.image.convert_image_dtype(image, tf.float32).
FloatImage to_float(const ImageView& image);

/// 0 to 1 becomes 0 to 255: value x becomes the whole part of x * 255.5, and what lies outside is
/// limited. TensorFlow: tf.image.convert_image_dtype(image, tf.uint8, saturate=True).
Image to_uint8(const FloatImageView& image);

}  // namespace brigade::image
