#pragma once

#include <vector>

#include "brigade/base/random.h"
#include "brigade/image/affine.h"
#include "brigade/image/augment_operations.h"
#include "brigade/image/image.h"

namespace brigade::image {

/// The names of torchvision's options, and its defaults.
struct RandAugmentOptions {
  /// How many operations, one after another: N of the paper, 1 to 3 there.
  int num_ops = 2;
  /// How strong they are, from 0 to `num_magnitude_bins` - 1: M of the paper. 9 suits ResNet-50 on
  /// ImageNet; larger networks and longer trainings bear more.
  int magnitude = 9;
  /// The scale of the magnitude; 31 as in the paper's ImageNet experiments, 11 as in its others.
  int num_magnitude_bins = 31;
  /// Interpolation and fill color of shears, translations and rotations.
  AffineOptions affine = {};
};

/// Draws `num_ops` operations (`kAugmentOperations`), each equally likely and possibly several
/// times, all at the same strength, with a random direction. At the last bin an image is sheared by
/// 0.3, moved by 150 / 331 of its extent, rotated by 30 degrees, its brightness, color, contrast
/// and sharpness changed by a factor of 0.1 or 1.9, and its values have 4 bits.
///
/// Throws kInvalidArgument for a negative number of operations, fewer than 2 bins, and a magnitude
/// outside of the scale.
std::vector<Augmentation> random_augmentations(const Size& image_size,
                                               const RandAugmentOptions& options,
                                               base::CounterRng& rng);

/// RandAugment (Cubuk et al., 2019): the image after `random_augmentations`. Choose it, or
/// `trivial_augment` that has nothing to tune, for long trainings of large networks; short ones are
/// better off with crops and flips alone. Use it before `normalize`, on the cropped image:
///
///   const auto image = image::rand_augment(cropped, {.num_ops = 2, .magnitude = 9}, context.rng);
///
/// Throws as `random_augmentations`, and kInvalidArgument unless the image has 1 or 3 channels.
/// torchvision: RandAugment.
Image rand_augment(const ImageView& image, const RandAugmentOptions& options,
                   base::CounterRng& rng);

}  // namespace brigade::image
