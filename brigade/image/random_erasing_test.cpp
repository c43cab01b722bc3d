#include "brigade/image/random_erasing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using base::CounterRng;
using testing::smooth_image;

TEST(RandomErasing, WindowsHaveTheAreaAndAspectAskedFor) {
  CounterRng rng(1);
  const Size size{300, 400};
  int erased = 0;
  double areas = 0;
  double tops = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const auto window = random_erasing_window(size, {.probability = 0.25}, rng);
    if (!window) continue;
    ++erased;
    check_window(*window, size, "test");
    const auto height = static_cast<double>(window->height);
    const auto width = static_cast<double>(window->width);
    EXPECT_GE(height * width, 0.019 * 300 * 400);
    EXPECT_LE(height * width, 0.34 * 300 * 400);
    EXPECT_GE(height / width, 0.29);
    EXPECT_LE(height / width, 3.4);
    areas += height * width / (300 * 400);
    tops += static_cast<double>(window->top) / (300 - height);
  }
  EXPECT_NEAR(erased, kDraws / 4, 100);
  EXPECT_NEAR(areas / erased, 0.17, 0.01);
  EXPECT_NEAR(tops / erased, 0.5, 0.03);
}

/// An image with `erased` where another value than the original's is.
template <class T>
void expect_erased(const BasicImage<T>& changed, const BasicImage<T>& original,
                   const Window& window, T fill) {
  for (std::int64_t y = 0; y < original.height(); ++y) {
    for (std::int64_t x = 0; x < original.width(); ++x) {
      const bool is_inside = y >= window.top && y < window.top + window.height &&
                             x >= window.left && x < window.left + window.width;
      ASSERT_EQ(changed.at(y, x, 0), is_inside ? fill : original.at(y, x, 0)) << y << " " << x;
    }
  }
}

TEST(RandomErasing, OverwritesItsWindowAndNothingElse) {
  const Image bytes = smooth_image({12, 15}, 3);
  const FloatImage floats({12, 15}, 1, std::vector<float>(12 * 15, 0.25F));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const RandomErasingOptions options{.probability = 1, .fill = {7.6F, 300, -5}};
    CounterRng drawing(seed);
    const auto window = random_erasing_window(bytes.size(), options, drawing);
    ASSERT_TRUE(window);
    CounterRng rng(seed);
    const Image changed = random_erasing(bytes, options, rng);
    expect_erased<std::uint8_t>(changed, bytes, *window, 8);
    EXPECT_EQ(changed.at(window->top, window->left, 1), 255) << "clamped";
    EXPECT_EQ(changed.at(window->top, window->left, 2), 0) << "clamped";
    EXPECT_EQ(rng.position(), drawing.position());
    CounterRng again(seed);
    expect_erased<float>(random_erasing(floats, options, again), floats, *window, 7.6F);
  }
}

TEST(RandomErasing, NoiseHasTheImagesScale) {
  const RandomErasingOptions options{.probability = 1,
                                     .min_area = 0.9,
                                     .max_area = 0.9,
                                     .min_aspect = 1,
                                     .max_aspect = 1,
                                     .fill_with_noise = true};
  CounterRng rng(3);
  const Image bytes = random_erasing(Image({60, 60}, 1), options, rng);
  const std::set<int> values(bytes.values().begin(), bytes.values().end());
  EXPECT_GT(values.size(), 250U);
  const FloatImage floats = random_erasing(FloatImage({60, 60}, 1), options, rng);
  double sum = 0;
  double squares = 0;
  for (const float value : floats.values()) {
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 3249, 0, 0.06);  // 57 x 57 values are noise
  EXPECT_NEAR(squares / 3249, 1, 0.08);
}

TEST(RandomErasing, NothingIsErasedIfNothingFitsOrIsDrawn) {
  CounterRng rng(1);
  const Image image = smooth_image({9, 9}, 3);
  EXPECT_EQ(random_erasing(image, {.probability = 0}, rng), image);
  EXPECT_EQ(random_erasing(image, {.probability = 1, .min_area = 1, .max_area = 1}, rng), image);
  EXPECT_EQ(random_erasing(Image({1, 1}, 3), {.probability = 1}, rng), Image({1, 1}, 3));
}

TEST(RandomErasing, RefusesImpossibleRanges) {
  CounterRng rng(1);
  const Image image({9, 9}, 3);
  EXPECT_THROW(random_erasing(image, {.probability = 1.5}, rng), Error);
  EXPECT_THROW(random_erasing(image, {.min_area = 0}, rng), Error);
  EXPECT_THROW(random_erasing(image, {.min_area = 0.5, .max_area = 0.4}, rng), Error);
  EXPECT_THROW(random_erasing(image, {.min_aspect = 0}, rng), Error);
  EXPECT_THROW(random_erasing(image, {.attempts = 0}, rng), Error);
  EXPECT_THROW(random_erasing(Image(), {}, rng), Error);
}

}  // namespace
}  // namespace brigade::image
