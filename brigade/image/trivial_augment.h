#pragma once

#include "brigade/base/random.h"
#include "brigade/image/affine.h"
#include "brigade/image/augment_operations.h"
#include "brigade/image/image.h"

namespace brigade::image {

/// The names of torchvision's options, and its defaults.
struct TrivialAugmentOptions {
  /// The number of strengths that are drawn from.
  int num_magnitude_bins = 31;
  /// Interpolation and fill color of shears, translations and rotations.
  AffineOptions affine = {};
};

/// Draws one operation (`kAugmentOperations`), its strength and its direction, each equally likely,
/// from TrivialAugment's wide ranges: shears up to 0.99, translations up to 32 pixels, rotations up
/// to 135 degrees, brightness, color, contrast and sharpness changed by factors of 0.01 to 1.99,
/// values of 2 to 8 bits. Three draws. Throws kInvalidArgument for fewer than 2 bins.
Augmentation random_wide_augmentation(const TrivialAugmentOptions& options, base::CounterRng& rng);

/// TrivialAugment (Mueller and Hutter, 2021), the wide form: the image after one
/// `random_wide_augmentation`. It has nothing to tune, and in its paper is as good as tuned
/// policies: try it first. Use it as `rand_augment`. Throws as `random_wide_augmentation`, and
/// kInvalidArgument unless the image has 1 or 3 channels. torchvision: TrivialAugmentWide.
Image trivial_augment(const ImageView& image, const TrivialAugmentOptions& options,
                      base::CounterRng& rng);

}  // namespace brigade::image
