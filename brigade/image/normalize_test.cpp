#include "brigade/image/normalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/image/augment.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::smooth_image;

TEST(Normalize, AppliesItsFormulaInBothLayouts) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const std::int64_t width : {1, 7, 64, 1100}) {
      const Image image = smooth_image({5, width}, channels);
      NormalizeOptions options{.mean = kImageNetMean, .deviation = kImageNetDeviation};
      const auto first = normalize(image, options);
      options.layout = Layout::kChannelsLast;
      const auto last = normalize(image, options);
      for (std::int64_t y = 0; y < 5; ++y) {
        for (std::int64_t x = 0; x < width; ++x) {
          for (std::int64_t c = 0; c < channels; ++c) {
            const auto k = static_cast<std::size_t>(c);
            const float expected = (static_cast<float>(image.at(y, x, c)) / 255 - options.mean[k]) /
                                   options.deviation[k];
            const float got = first[static_cast<std::size_t>((c * 5 + y) * width + x)];
            ASSERT_NEAR(got, expected, 1e-6) << y << ", " << x << ", " << c;
            ASSERT_EQ(got, last[static_cast<std::size_t>((y * width + x) * channels + c)]);
          }
        }
      }
    }
  }
}

TEST(Normalize, FlipsInTheSamePass) {
  for (const std::int64_t channels : {1, 3, 4}) {
    const Image image = smooth_image({5, 600}, channels);
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      NormalizeOptions options{.layout = layout};
      const auto expected = normalize(flip_horizontally(image), options);
      options.flip = Flip::kHorizontal;
      EXPECT_EQ(normalize(image, options), expected);
    }
  }
}

TEST(Normalize, AcceptsWindows) {
  const Image image = smooth_image({20, 30}, 3);
  const ImageView window = image.view().window({2, 3, 10, 20});
  EXPECT_EQ(normalize(window), normalize(Image(window)));
}

TEST(Normalize, RefusesAWrongSizeAndZeroDeviations) {
  const Image image({2, 2}, 3);
  std::vector<float> room(11);
  EXPECT_THROW(normalize(image, {}, room), Error);
  EXPECT_THROW(normalize(image, {.deviation = {1, 0, 1, 1}}), Error);
  EXPECT_THROW(to_channels_first(FloatImage({2, 2}, 3), room), Error);
}

TEST(ToChannelsFirst, OnlyMovesValues) {
  const FloatImage image({1, 2}, 3, {1, 2, 3, 4, 5, 6});
  std::vector<float> planes(6);
  to_channels_first(image, planes);
  EXPECT_EQ(planes, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

using testing::values_of;

TEST(Convert, MatchesTensorFlow) {
  const auto table = testing::golden("convert");
  std::vector<std::uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  EXPECT_EQ(to_float(Image({1, 256}, 1, bytes)).values(),
            values_of<float>(table.at("bytes to floats")));
  const auto floats = values_of<float>(table.at("floats"));
  EXPECT_EQ(to_uint8(FloatImage({1, static_cast<std::int64_t>(floats.size())}, 1, floats)).values(),
            values_of<std::uint8_t>(table.at("floats to bytes")));
}

TEST(Convert, RoundTripIsLossless) {
  const Image image = testing::smooth_image({40, 41}, 3);
  EXPECT_EQ(to_uint8(to_float(image)), image);
}

TEST(Convert, ClampsValuesAndNaN) {
  EXPECT_EQ(to_uint8(FloatImage({1, 3}, 1, {NAN, INFINITY, -INFINITY})).values(),
            (std::vector<std::uint8_t>{0, 255, 0}));
}

}  // namespace
}  // namespace brigade::image
