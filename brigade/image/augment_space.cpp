#include "brigade/image/augment_space.h"

#include <cmath>
#include <cstddef>

namespace brigade::image::internal {
namespace {

/// torch.linspace, to the bit: the second half is counted from the end, with one rounding a value.
double linear_at(double start, double end, int i, int count) {
  const auto first = static_cast<float>(start);
  const auto last = static_cast<float>(end);
  const float step = (last - first) / static_cast<float>(count - 1);
  return i < count / 2 ? std::fma(step, static_cast<float>(i), first)
                       : std::fma(-step, static_cast<float>(count - i - 1), last);
}

double kept_bits(int posterized_bits, int bin, int bins) {
  const double bins_per_bit = static_cast<double>(bins - 1) / posterized_bits;
  return 8 - std::nearbyint(bin / bins_per_bit);
}

bool has_sign(AugmentOperation operation) {
  switch (operation) {
    case AugmentOperation::kIdentity:
    case AugmentOperation::kPosterize:
    case AugmentOperation::kSolarize:
    case AugmentOperation::kAutocontrast:
    case AugmentOperation::kEqualize:
      return false;
    default:
      return true;
  }
}

}  // namespace

double magnitude_at(const AugmentSpace& space, AugmentOperation operation, int bin) {
  const auto up_to = [&](double largest) { return linear_at(0, largest, bin, space.bins); };
  switch (operation) {
    case AugmentOperation::kShearX:
    case AugmentOperation::kShearY:
      return up_to(space.shear);
    case AugmentOperation::kTranslateX:
      return up_to(space.translate_x);
    case AugmentOperation::kTranslateY:
      return up_to(space.translate_y);
    case AugmentOperation::kRotate:
      return up_to(space.rotate);
    case AugmentOperation::kBrightness:
    case AugmentOperation::kColor:
    case AugmentOperation::kContrast:
    case AugmentOperation::kSharpness:
      return up_to(space.enhance);
    case AugmentOperation::kPosterize:
      return kept_bits(space.posterized_bits, bin, space.bins);
    case AugmentOperation::kSolarize:
      return linear_at(255, 0, bin, space.bins);
    default:
      return 0;
  }
}

Augmentation random_augmentation(const AugmentSpace& space, int bin, base::CounterRng& rng) {
  const AugmentOperation operation =
      kAugmentOperations[static_cast<std::size_t>(rng.uniform_below(kAugmentOperations.size()))];
  const bool is_negative = rng.uniform() < 0.5;  // drawn for every operation
  const double magnitude = magnitude_at(space, operation, bin);
  return {.operation = operation,
          .magnitude = is_negative && has_sign(operation) ? -magnitude : magnitude};
}

}  // namespace brigade::image::internal
