#include "brigade/image/rand_augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using base::CounterRng;
using testing::smooth_image;

/// The magnitudes of enough draws, without their signs, by operation.
std::map<std::string, double> drawn_magnitudes(const Size& size,
                                               const RandAugmentOptions& options) {
  std::map<std::string, double> magnitudes;
  CounterRng rng(1);
  for (const Augmentation& each : random_augmentations(size, options, rng)) {
    const std::string name(to_string(each.operation));
    const double magnitude = std::abs(each.magnitude);
    const bool is_new = magnitudes.emplace(name, magnitude).second;
    EXPECT_TRUE(is_new || magnitudes.at(name) == magnitude) << name << " has two magnitudes";
  }
  return magnitudes;
}

void expect_torchvision_magnitudes(const char* part, int bins) {
  for (int bin = 0; bin < bins; ++bin) {
    for (const auto& recorded : testing::augmentation_golden(part)) {
      const Size size{recorded.at("size")[0], recorded.at("size")[1]};
      const auto ours =
          drawn_magnitudes(size, {.num_ops = 300, .magnitude = bin, .num_magnitude_bins = bins});
      ASSERT_EQ(ours.size(), 14U);
      const std::string name = recorded.at("operation");
      EXPECT_EQ(ours.at(name),
                recorded.at("magnitudes")[static_cast<std::size_t>(bin)].get<double>())
          << name << " of bin " << bin;
    }
  }
}

TEST(RandAugment, MagnitudesAreTorchvisions) {
  expect_torchvision_magnitudes("rand_augment", 31);
  expect_torchvision_magnitudes("rand_augment of 11 bins", 11);
}

TEST(RandAugment, AppliesWhatItDraws) {
  const Image image = smooth_image({20, 24}, 3);
  const RandAugmentOptions options{
      .num_ops = 3,
      .magnitude = 20,
      .affine = {.interpolation = Interpolation::kBilinear, .fill = {1, 2, 3}}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CounterRng drawing(seed);
    Image expected = image;
    for (const Augmentation& each : random_augmentations(image.size(), options, drawing))
      expected = augmented(expected, each, options.affine);
    CounterRng rng(seed);
    EXPECT_EQ(rand_augment(image, options, rng), expected);
    EXPECT_EQ(rng.position(), 6U);
  }
}

TEST(RandAugment, WithoutOperationsNothingChanges) {
  CounterRng rng(1);
  const Image image = smooth_image({5, 6}, 1);
  EXPECT_EQ(rand_augment(image, {.num_ops = 0}, rng), image);
  EXPECT_EQ(rng.position(), 0U);
}

TEST(RandAugment, RefusesValuesOutsideTheirRange) {
  CounterRng rng(1);
  const Image image({4, 4}, 3);
  EXPECT_THROW(rand_augment(image, {.num_ops = -1}, rng), Error);
  EXPECT_THROW(rand_augment(image, {.magnitude = 31}, rng), Error);
  EXPECT_THROW(rand_augment(image, {.magnitude = -1}, rng), Error);
  EXPECT_THROW(rand_augment(image, {.magnitude = 0, .num_magnitude_bins = 1}, rng), Error);
  EXPECT_THROW(rand_augment(Image({4, 4}, 4), {}, rng), Error);
}

}  // namespace
}  // namespace brigade::image
