#include "brigade/image/trivial_augment.h"

#include "brigade/base/error.h"
#include "brigade/image/augment_space.h"

namespace brigade::image {

Augmentation random_wide_augmentation(const TrivialAugmentOptions& options, base::CounterRng& rng) {
  const int bins = options.num_magnitude_bins;
  check_argument(bins >= 2, "trivial_augment: num_magnitude_bins is ", bins,
                 " and must be at least 2");
  const internal::AugmentSpace wide{.shear = 0.99,
                                    .translate_x = 32,
                                    .translate_y = 32,
                                    .rotate = 135,
                                    .enhance = 0.99,
                                    .posterized_bits = 6,
                                    .bins = bins};
  const auto bin = static_cast<int>(rng.uniform_below(static_cast<std::uint64_t>(bins)));
  return internal::random_augmentation(wide, bin, rng);
}

Image trivial_augment(const ImageView& image, const TrivialAugmentOptions& options,
                      base::CounterRng& rng) {
  internal::check_gray_or_rgb(image, "trivial_augment");
  return augmented(image, random_wide_augmentation(options, rng), options.affine);
}

}  // namespace brigade::image
