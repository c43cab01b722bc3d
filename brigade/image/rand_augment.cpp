#include "brigade/image/rand_augment.h"

#include "brigade/base/error.h"
#include "brigade/image/augment_space.h"

namespace brigade::image {
namespace {

void check_rand_augment(const RandAugmentOptions& options) {
  const auto& [num_ops, magnitude, bins, affine] = options;
  check_argument(num_ops >= 0, "rand_augment: num_ops is ", num_ops, " and must be at least 0");
  check_argument(bins >= 2, "rand_augment: num_magnitude_bins is ", bins,
                 " and must be at least 2");
  check_argument(magnitude >= 0 && magnitude < bins, "rand_augment: magnitude is ", magnitude,
                 " and must be 0 to ", bins - 1, ", for there are ", bins, " bins");
}

internal::AugmentSpace rand_augment_space(const Size& size, int bins) {
  constexpr double kMoved = 150.0 / 331.0;
  return {.shear = 0.3,
          .translate_x = kMoved * static_cast<double>(size.width),
          .translate_y = kMoved * static_cast<double>(size.height),
          .rotate = 30,
          .enhance = 0.9,
          .posterized_bits = 4,
          .bins = bins};
}

}  // namespace

std::vector<Augmentation> random_augmentations(const Size& image_size,
                                               const RandAugmentOptions& options,
                                               base::CounterRng& rng) {
  check_rand_augment(options);
  const internal::AugmentSpace space = rand_augment_space(image_size, options.num_magnitude_bins);
  std::vector<Augmentation> augmentations;
  for (int i = 0; i < options.num_ops; ++i)
    augmentations.push_back(internal::random_augmentation(space, options.magnitude, rng));
  return augmentations;
}

Image rand_augment(const ImageView& image, const RandAugmentOptions& options,
                   base::CounterRng& rng) {
  internal::check_gray_or_rgb(image, "rand_augment");
  Image result(image);
  for (const Augmentation& each : random_augmentations(image.size(), options, rng))
    result = augmented(result, each, options.affine);
  return result;
}

}  // namespace brigade::image
