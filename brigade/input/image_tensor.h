#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "brigade/data/transforms/map.h"
#include "brigade/image/decode.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"
#include "brigade/image/random_erasing.h"
#include "brigade/image/resize.h"

namespace brigade::input {

// Conversion of images to tensors, and augmentation of images that are tensors already. Before the
// conversion use `image::` to decode, resize and augment.

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

/// Options of `random_crop`.
struct CropOptions {
  /// Height and width of the result; 0 keeps the image's.
  std::int64_t height = 0;
  std::int64_t width = 0;
  /// Zero padding added on every side before cropping.
  std::int64_t padding = 0;
};

/// A random window of an image [..., height, width]; each position is equally likely. For use in
/// `map`:
///   dataset.map([](LabeledExample example, data::ElementContext& context) {
///     example.features = random_crop(example.features, {.padding = 2}, context);
///     return example;
///   }, {.parallelism = 4});
/// Throws kInvalidArgument if the window is larger than the padded image.
at::Tensor random_crop(const at::Tensor& image, const CropOptions& options,
                       data::ElementContext& context);

/// The image, mirrored left to right with the given probability. Throws kInvalidArgument unless the
/// probability is in [0, 1].
at::Tensor random_horizontal_flip(const at::Tensor& image, data::ElementContext& context,
                                  double probability = 0.5);

/// The image [C, height, width] or [height, width], with a random window overwritten in a copy:
/// `image::random_erasing`, for use after `normalize`. `fill` is on the scale of the tensor's
/// values. Throws as `image::random_erasing_window`, and kInvalidArgument for other dtypes than
/// float32 and uint8 and for more than four channels.
at::Tensor random_erasing(const at::Tensor& image, const image::RandomErasingOptions& options,
                          data::ElementContext& context);

}  // namespace brigade::input
