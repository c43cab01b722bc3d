#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "brigade/data/transforms/map.h"
#include "brigade/image/augment.h"
#include "brigade/image/image.h"
#include "brigade/image/normalize.h"
#include "brigade/image/resize.h"
#include "brigade/input/image_output.h"

namespace brigade::input {

/// Makes network input of a decoded image: the resizing, cropping and augmentation of a dataset of
/// files (`ImageFolderOptions::transform`). `training_transform` and `evaluation_transform` are
/// those of ImageNet's usual training; write your own for others.
///
/// Thread-safety: threads call `apply` at the same time, so it changes nothing. All randomness
/// comes from `ElementContext::rng`, so that the results are the same with any number of threads
/// and after a restore.
struct ImageTransform {
  /// Returns a tensor, the same shape for every image: float32 or uint8 [C, height, width].
  std::function<at::Tensor(const image::ImageView& image, data::ElementContext& context)> apply{};
  /// What it does, with every option that changes values, for the pipeline's description: a
  /// position that was saved with another one is refused.
  std::string name{};

  explicit operator bool() const { return static_cast<bool>(apply); }
};

/// A step of `training_transform` on bytes, before the conversion to float, such as
/// `image::rand_augment`.
using ImageAugmentation =
    std::function<image::Image(const image::ImageView& image, base::CounterRng& rng)>;

/// Options of `training_transform`; the defaults are those of ImageNet's usual training.
struct TrainingTransformOptions {
  /// Height and width of the result.
  image::Size size{224, 224};
  /// The window that is resized to `size`.
  image::ResizedWindowOptions window{};
  /// How the window is resized.
  image::Interpolation interpolation = image::Interpolation::kBilinear;
  /// How often the image is mirrored left to right.
  double flip_probability = 0.5;
  /// Applied to the resized image; empty: nothing.
  ImageAugmentation augment{};
  /// Of `augment`, for the pipeline's description.
  std::string augment_name{};
  /// Each value becomes (x / 255 - mean) / deviation of its channel (`image::normalize`).
  std::array<float, 4> mean = image::kImageNetMean;
  std::array<float, 4> deviation = image::kImageNetDeviation;
  /// With kBytes `mean` and `deviation` are not used.
  ImageOutput output = ImageOutput::kNormalized;
};

/// A random window of the image, resized, mirrored at random and normalized: the usual training
/// input for ImageNet (Szegedy et al., 2014; torchvision: RandomResizedCrop,
/// RandomHorizontalFlip, Normalize). Throws kInvalidArgument for a size without pixels, a
/// probability outside of [0, 1], an augmentation without a name, and as
/// `image::random_resized_window`, all before the first image.
ImageTransform training_transform(const TrainingTransformOptions& options = {});

/// Options of `evaluation_transform`; the defaults are those of ImageNet's usual evaluation.
struct EvaluationTransformOptions {
  /// The image's shorter side becomes this long, in proportion; 0: that of `crop`.
  std::int64_t resize = 256;
  /// The window at the center of the resized image.
  image::Size crop{224, 224};
  /// How the image is resized.
  image::Interpolation interpolation = image::Interpolation::kBilinear;
  /// As in `TrainingTransformOptions`.
  std::array<float, 4> mean = image::kImageNetMean;
  std::array<float, 4> deviation = image::kImageNetDeviation;
  /// With kBytes `mean` and `deviation` are not used.
  ImageOutput output = ImageOutput::kNormalized;
};

/// The center of the resized image, normalized: the usual evaluation input for ImageNet
/// (torchvision: Resize, CenterCrop, Normalize). Throws kInvalidArgument for a crop that is larger
/// than the resized image of any file could be: a side above `resize`.
ImageTransform evaluation_transform(const EvaluationTransformOptions& options = {});

}  // namespace brigade::input
