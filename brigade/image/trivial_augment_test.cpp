#include "brigade/image/trivial_augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using base::CounterRng;
using testing::smooth_image;

TEST(TrivialAugment, MagnitudesAreTorchvisions) {
  std::map<std::string, std::set<double>> drawn;
  CounterRng rng(1);
  for (int i = 0; i < 6000; ++i) {
    const Augmentation each = random_wide_augmentation({}, rng);
    drawn[std::string(to_string(each.operation))].insert(std::abs(each.magnitude));
  }
  const auto recorded = testing::augmentation_golden("trivial_augment");
  EXPECT_EQ(recorded.size(), drawn.size());
  for (const auto& each : recorded) {
    const auto magnitudes = each.at("magnitudes").get<std::vector<double>>();
    EXPECT_EQ(drawn.at(each.at("operation")),
              std::set<double>(magnitudes.begin(), magnitudes.end()))
        << each.at("operation");
  }
}

TEST(TrivialAugment, AppliesTheOneOperationThatItDraws) {
  const Image image = smooth_image({20, 24}, 3);
  const TrivialAugmentOptions options{.affine = {.fill = {9, 9, 9}}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CounterRng drawing(seed);
    const Augmentation drawn = random_wide_augmentation(options, drawing);
    CounterRng rng(seed);
    EXPECT_EQ(trivial_augment(image, options, rng), augmented(image, drawn, options.affine));
    EXPECT_EQ(rng.position(), 3U);
  }
}

TEST(TrivialAugment, RefusesValuesOutsideTheirRange) {
  CounterRng rng(1);
  EXPECT_THROW(trivial_augment(Image({4, 4}, 3), {.num_magnitude_bins = 1}, rng), Error);
  EXPECT_THROW(trivial_augment(Image({4, 4}, 2), {}, rng), Error);
}

}  // namespace
}  // namespace brigade::image
