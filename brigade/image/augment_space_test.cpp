#include "brigade/image/augment_space.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace brigade::image::internal {
namespace {

TEST(AugmentSpace, MagnitudesGrowFromNoChange) {
  const AugmentSpace space{.shear = 0.3,
                           .translate_x = 10,
                           .translate_y = 20,
                           .rotate = 30,
                           .enhance = 0.9,
                           .posterized_bits = 4,
                           .bins = 31};
  for (const AugmentOperation operation : kAugmentOperations) {
    const bool is_falling =
        operation == AugmentOperation::kPosterize || operation == AugmentOperation::kSolarize;
    for (int bin = 1; bin < space.bins; ++bin) {
      const double step =
          magnitude_at(space, operation, bin) - magnitude_at(space, operation, bin - 1);
      EXPECT_GE(is_falling ? -step : step, 0) << to_string(operation) << " " << bin;
    }
  }
  EXPECT_EQ(magnitude_at(space, AugmentOperation::kTranslateY, 30), 20);
  EXPECT_EQ(magnitude_at(space, AugmentOperation::kPosterize, 0), 8);
  EXPECT_EQ(magnitude_at(space, AugmentOperation::kPosterize, 30), 4);
  EXPECT_EQ(magnitude_at(space, AugmentOperation::kSolarize, 0), 255);
  EXPECT_EQ(magnitude_at(space, AugmentOperation::kEqualize, 30), 0);
}

TEST(AugmentSpace, OperationsAndDirectionsAreEquallyLikely) {
  const AugmentSpace space{.shear = 1,
                           .translate_x = 1,
                           .translate_y = 1,
                           .rotate = 1,
                           .enhance = 1,
                           .posterized_bits = 4,
                           .bins = 2};
  base::CounterRng rng(3);
  std::map<AugmentOperation, int> count;
  std::map<AugmentOperation, int> negative;
  constexpr int kDraws = 14'000;
  for (int i = 0; i < kDraws; ++i) {
    const Augmentation drawn = random_augmentation(space, 1, rng);
    ++count[drawn.operation];
    if (std::signbit(drawn.magnitude)) ++negative[drawn.operation];
  }
  EXPECT_EQ(rng.position(), 2U * kDraws);
  for (const AugmentOperation operation : kAugmentOperations)
    EXPECT_NEAR(count[operation], kDraws / 14, 130) << to_string(operation);
  EXPECT_EQ(negative.size(), 9U);
  for (const auto& [operation, times] : negative)
    EXPECT_NEAR(times, count[operation] / 2, 70) << to_string(operation);
}

}  // namespace
}  // namespace brigade::image::internal
