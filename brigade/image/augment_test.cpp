#include "brigade/image/augment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using base::CounterRng;
using testing::smooth_image;

TEST(RandomWindow, EachPositionIsEquallyLikely) {
  CounterRng rng(1);
  std::map<std::pair<std::int64_t, std::int64_t>, int> positions;
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const Window window = random_window({5, 7}, {4, 5}, rng);
    ASSERT_EQ(window.size(), (Size{4, 5}));
    ++positions[{window.top, window.left}];
  }
  ASSERT_EQ(positions.size(), 6U);
  for (const auto& [position, count] : positions) EXPECT_NEAR(count, kDraws / 6, 150);
  EXPECT_EQ(random_window({5, 7}, {5, 7}, rng), (Window{0, 0, 5, 7}));
  EXPECT_THROW(random_window({5, 7}, {6, 7}, rng), Error);
  EXPECT_THROW(random_window({5, 7}, {0, 7}, rng), Error);
}

TEST(RandomResizedWindow, RespectsAreaAndAspectLimits) {
  CounterRng rng(2);
  double areas = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Window window = random_resized_window({375, 500}, {}, rng);
    check_window(window, {375, 500}, "test");
    const auto height = static_cast<double>(window.height);
    const auto width = static_cast<double>(window.width);
    EXPECT_GE(height * width, 0.078 * 375 * 500);
    EXPECT_GE(width / height, 0.74);
    EXPECT_LE(width / height, 1.35);
    areas += height * width / (375 * 500);
  }
  EXPECT_NEAR(areas / kDraws, 0.437, 0.012);  // below 0.54: large ones often do not fit
}

TEST(RandomResizedWindow, FallsBackToTheCenter) {
  CounterRng rng(3);
  const ResizedWindowOptions whole{.min_area = 1, .max_area = 1};
  EXPECT_EQ(random_resized_window({100, 300}, whole, rng), (Window{0, 83, 100, 133}));
  EXPECT_EQ(random_resized_window({300, 75}, whole, rng), (Window{100, 0, 100, 75}));
  EXPECT_EQ(random_resized_window({1, 1}, {}, rng), (Window{0, 0, 1, 1}));
}

TEST(RandomResizedWindow, RefusesImpossibleRanges) {
  CounterRng rng(3);
  EXPECT_THROW(random_resized_window({9, 9}, {.min_area = 0}, rng), Error);
  EXPECT_THROW(random_resized_window({9, 9}, {.min_area = 0.5, .max_area = 0.4}, rng), Error);
  EXPECT_THROW(random_resized_window({9, 9}, {.max_area = 1.5}, rng), Error);
  EXPECT_THROW(random_resized_window({9, 9}, {.min_aspect = 0}, rng), Error);
  EXPECT_THROW(random_resized_window({9, 9}, {.attempts = 0}, rng), Error);
  EXPECT_THROW(random_resized_window({0, 9}, {}, rng), Error);
}

TEST(RandomFlip, FlipsWithTheGivenProbability) {
  CounterRng rng(4);
  int flips = 0;
  for (int i = 0; i < 4000; ++i) flips += random_flip(rng, 0.3) == Flip::kHorizontal ? 1 : 0;
  EXPECT_NEAR(flips, 1200, 120);
  EXPECT_EQ(random_flip(rng, 0), Flip::kNone);
  EXPECT_EQ(random_flip(rng, 1), Flip::kHorizontal);
  EXPECT_THROW(random_flip(rng, 1.5), Error);
}

TEST(Flip, MirrorsPixelsNotChannels) {
  const Image image({2, 2}, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(flip_horizontally(image).values(),
            (std::vector<std::uint8_t>{4, 5, 6, 1, 2, 3, 10, 11, 12, 7, 8, 9}));
  EXPECT_EQ(flip_vertically(image).values(),
            (std::vector<std::uint8_t>{7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6}));
}

TEST(ColorJitter, IsAFunctionOfTheGeneratorWithFourDraws) {
  const Image image = smooth_image({12, 13}, 3);
  const ColorJitter jitter{.brightness = 0.2, .contrast = 0.3, .saturation = 0.4, .hue = 0.1};
  CounterRng first(5);
  CounterRng again(5);
  CounterRng other(6);
  const Image changed = color_jitter(image, jitter, first);
  EXPECT_EQ(first.position(), 4U);
  EXPECT_EQ(color_jitter(image, jitter, again), changed);
  EXPECT_NE(color_jitter(image, jitter, other), changed);
  EXPECT_EQ(color_jitter(image, {}, first), image);
  EXPECT_EQ(first.position(), 8U);
}

TEST(ColorJitter, RefusesInvalidAmounts) {
  CounterRng rng(5);
  EXPECT_THROW(color_jitter(Image({2, 2}, 3), {.brightness = -1}, rng), Error);
  EXPECT_THROW(color_jitter(Image({2, 2}, 3), {.hue = 0.6}, rng), Error);
  EXPECT_THROW(color_jitter(Image({2, 2}, 1), {.saturation = 0.6}, rng), Error);
  EXPECT_EQ(color_jitter(Image({2, 2}, 1), {.brightness = 0.5}, rng).channels(), 1);
}

}  // namespace
}  // namespace brigade::image
