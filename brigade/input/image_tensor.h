#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "brigade/image/decode.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"
#include "brigade/image/resize.h"

namespace brigade::input {

// Conversion of images to tensors. Use `image::` to decode, resize and augment images before the
// conversion, and libtorch after it.

/// The bytes of an image as a uint8 tensor [C, H, W], or [H, W, C].
at::Tensor to_tensor(const image::ImageView& image,
                     image::Layout layout = image::Layout::kChannelsFirst);

/// An image as network input, float [C, H, W] or [H, W, C], in one pass: `image::normalize`. Call
/// it as `input::normalize`: an unqualified `normalize` is ambiguous.
at::Tensor normalize(const image::ImageView& image, const image::NormalizeOptions& options = {});

/// Decodes a JPEG, PNG or BMP file to a uint8 tensor: `image::decode_image`.
at::Tensor decode_to_tensor(std::string_view bytes, const image::DecodeOptions& options = {},
                            image::Layout layout = image::Layout::kChannelsFirst);

/// Resizes images [..., H, W] of uint8 or float32; the result is float32: `image::resize` of each
/// plane. Throws kInvalidArgument for other dtypes and fewer than two dimensions.
at::Tensor resize_images(const at::Tensor& images, const image::Size& size,
                         image::Interpolation interpolation = image::Interpolation::kBilinear);

/// Converts values to the scale of another dtype: integers range from 0 to their maximum, floats
/// from 0 to 1. Between floats, and to the same dtype, values do not change; the first such call on
/// floats logs a warning, since float images with values of 0 to 255 are not scaled. Conversions to
/// integers clamp to their range.
///
/// Throws kInvalidArgument for other dtypes. TensorFlow:
/// tf.image.convert_image_dtype(image, dtype, saturate=True).
at::Tensor convert_image_dtype(const at::Tensor& images, at::ScalarType dtype);

}  // namespace brigade::input
