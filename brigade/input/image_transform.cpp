#include "brigade/input/image_transform.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/image/crop.h"
#include "brigade/input/image_tensor.h"

namespace brigade::input {
namespace {

using base::str_cat;

void check_size(const image::Size& size, const char* what) {
  check_argument(size.height > 0 && size.width > 0, what, " is ", size, "; both must be 1 or more");
}

void check_training(const TrainingTransformOptions& options) {
  check_size(options.size, "training_transform: the size");
  check_argument(options.flip_probability >= 0 && options.flip_probability <= 1,
                 "training_transform: flip_probability is ", options.flip_probability,
                 "; it must be 0 to 1");
  check_argument(!options.augment || !options.augment_name.empty(),
                 "training_transform: an augmentation needs augment_name, which says what it does");
  base::CounterRng rng(0);
  image::random_resized_window(options.size, options.window, rng);  // refuses its options
}

/// Of either kind of options.
std::string normalization(const auto& options) {
  if (options.output == ImageOutput::kBytes) return "bytes";
  return str_cat("mean ", base::join(options.mean, " "), ", deviation ",
                 base::join(options.deviation, " "));
}

at::Tensor output_of(const image::ImageView& image, const auto& options, image::Flip flip) {
  if (options.output == ImageOutput::kNormalized)
    return input::normalize(image,
                            {.mean = options.mean, .deviation = options.deviation, .flip = flip});
  if (flip == image::Flip::kNone) return to_tensor(image);
  return to_tensor(image::flip_horizontally(image).view());
}

at::Tensor training_input(const image::ImageView& image, const TrainingTransformOptions& options,
                          base::CounterRng& rng) {
  const image::Window window = image::random_resized_window(image.size(), options.window, rng);
  const image::Flip flip = image::random_flip(rng, options.flip_probability);
  image::Image resized =
      image::resize_to_uint8(image.window(window), options.size, options.interpolation);
  if (options.augment) resized = options.augment(resized.view(), rng);
  return output_of(resized.view(), options, flip);
}

/// The size whose shorter side is `shorter`, rounded down as torchvision's.
image::Size resized_size(const image::Size& size, std::int64_t shorter) {
  if (size.height <= size.width) return {shorter, shorter * size.width / size.height};
  return {shorter * size.height / size.width, shorter};
}

at::Tensor evaluation_input(const image::ImageView& image,
                            const EvaluationTransformOptions& options) {
  const image::Size whole = resized_size(image.size(), options.resize);
  const image::Image resized = image::resize_to_uint8(image, whole, options.interpolation);
  const image::Window center = image::central_window(whole, options.crop);
  return output_of(resized.view().window(center), options, image::Flip::kNone);
}

}  // namespace

ImageTransform training_transform(const TrainingTransformOptions& options) {
  check_training(options);
  const image::ResizedWindowOptions& window = options.window;
  std::string name = str_cat("training_transform(", options.size, ", area ", window.min_area, " ",
                             window.max_area, ", aspect ", window.min_aspect, " ",
                             window.max_aspect, ", ", window.attempts, ", ", options.interpolation,
                             ", flip ", options.flip_probability, ", ", normalization(options));
  if (options.augment) name += str_cat(", ", options.augment_name);
  return {.apply =
              [options](const image::ImageView& image, data::ElementContext& context) {
                return training_input(image, options, context.rng);
              },
          .name = name + ")"};
}

ImageTransform evaluation_transform(const EvaluationTransformOptions& options) {
  check_size(options.crop, "evaluation_transform: the crop");
  EvaluationTransformOptions checked = options;
  const std::int64_t longer = std::max(options.crop.height, options.crop.width);
  if (checked.resize == 0) checked.resize = longer;
  check_argument(checked.resize >= longer, "evaluation_transform: a crop of ", options.crop,
                 " does not fit into images whose shorter side is ", options.resize,
                 "; give a larger resize, or 0 for the crop's");
  return {.apply = [checked](const image::ImageView& image,
                             data::ElementContext&) { return evaluation_input(image, checked); },
          .name = str_cat("evaluation_transform(", checked.resize, ", ", checked.crop, ", ",
                          checked.interpolation, ", ", normalization(checked), ")")};
}

}  // namespace brigade::input
