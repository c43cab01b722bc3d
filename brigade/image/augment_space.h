#pragma once

#include "brigade/base/random.h"
#include "brigade/image/augment_operations.h"
#include "brigade/image/image.h"

namespace brigade::image::internal {

/// The range of each operation's magnitude, from a scale of bins: bin 0 changes least, the last bin
/// most. For `rand_augment` and `trivial_augment`, which differ in these numbers.
struct AugmentSpace {
  double shear = 0;        ///< the largest amount
  double translate_x = 0;  ///< in pixels
  double translate_y = 0;
  double rotate = 0;        ///< in degrees
  double enhance = 0;       ///< the largest difference of a factor from 1
  int posterized_bits = 0;  ///< the most bits that are cleared
  int bins = 0;
};

/// The magnitude of a bin, 0 to `space.bins` - 1, in float32 as torchvision's; positive.
double magnitude_at(const AugmentSpace& space, AugmentOperation operation, int bin);

/// One of the 14 operations, each equally likely, at the magnitude of that bin, whose sign is
/// random if the operation has both directions: two draws.
Augmentation random_augmentation(const AugmentSpace& space, int bin, base::CounterRng& rng);

}  // namespace brigade::image::internal
