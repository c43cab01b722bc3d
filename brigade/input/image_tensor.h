#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "brigade/image/decode.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"
#include "brigade/image/resize.h"

namespace brigade::input {

// Images as tensors. `image::` decodes, resizes and augments them before; libtorch after.

/// The bytes of an image as a uint8 tensor [C, H, W], or [H, W, C].
at::Tensor to_tensor(const image::ImageView& image,
                     image::Layout layout = image::Layout::kChannelsFirst);

/// An image as a network takes it, float [C, H, W] or [H, W, C], in one pass:
/// `image::normalize`. Call it as `input::normalize`, for that other one is found too.
at::Tensor normalize(const image::ImageView& image, const image::NormalizeOptions& options = {});

/// The image in a JPEG, PNG or BMP file as a uint8 tensor: `image::decode_image`.
at::Tensor decode_to_tensor(std::string_view bytes, const image::DecodeOptions& options = {},
                            image::Layout layout = image::Layout::kChannelsFirst);

/// Images [..., H, W] of uint8 or float32 at another size, as float32: `image::resize` of each
/// plane. Throws kInvalidArgument for other dtypes and fewer than two dimensions.
at::Tensor resize_images(const at::Tensor& images, const image::Size& size,
                           image::Interpolation interpolation = image::Interpolation::kBilinear);

/// Values in the scale of another dtype: integers fill their range from 0 to the largest, floats go
/// from 0 to 1. Between floats, and to the same dtype, values stay as they are: the first such call
/// on floats logs a warning, since images of 0 to 255 that somebody has made floats are not
/// scaled. To integers values are limited to their range.
///
/// Throws kInvalidArgument for dtypes that are neither. TensorFlow:
/// tf.image.convert_image_dtype(image, dtype, saturate=True).
at::Tensor convert_image_dtype(const at::Tensor& images, at::ScalarType dtype);

}  // namespace brigade::input
