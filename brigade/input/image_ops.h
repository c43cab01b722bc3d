#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "brigade/data/transforms/map.h"

namespace brigade::input {

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

}  // namespace brigade::input
