#include "brigade/image/resize.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/image/normalize.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::image_of;
using testing::smooth_image;

TEST(Resize, MatchesTensorFlow) {
  const auto images = testing::golden("images");
  for (const auto& row : testing::golden("resize")) {
    const auto image = image_of<std::uint8_t>(images.at(row.at("image")));
    const Interpolation interpolation =
        interpolation_of(row.at("interpolation").get<std::string>());
    const auto expected = image_of<float>(row.at("result"));
    const FloatImage result = resize(image, expected.size(), interpolation);
    EXPECT_LE(testing::largest_difference(result.values(), expected.values()), 1e-4)
        << to_string(interpolation) << " to " << row.at("size");
  }
}

TEST(Resize, FloatsAndBytesGiveTheSameResult) {
  const Image image = smooth_image({20, 31}, 3);
  FloatImage floats(image.size(), 3);
  std::copy(image.values().begin(), image.values().end(), floats.row(0));
  for (const auto interpolation : {Interpolation::kBilinear, Interpolation::kArea}) {
    EXPECT_EQ(resize(floats, {9, 50}, interpolation), resize(image, {9, 50}, interpolation));
  }
}

TEST(Resize, AcceptsWindowsAndAnyNumberOfChannels) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Image image = smooth_image({20, 31}, channels);
    const ImageView window = image.view().window({3, 4, 10, 20});
    EXPECT_EQ(resize(window, {7, 7}), resize(Image(window), {7, 7}));
    for (const auto interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                     Interpolation::kArea, Interpolation::kBicubic}) {
      const FloatImage same = resize(image, image.size(), interpolation);
      EXPECT_EQ(Image(image.size(), channels,
                      std::vector<std::uint8_t>(same.values().begin(), same.values().end())),
                image);
    }
  }
}

TEST(Resize, RoundsToBytes) {
  const Image image({1, 2}, 1, {10, 13});
  EXPECT_EQ(resize(image, {1, 1}).values(), std::vector<float>{11.5F});
  EXPECT_EQ(resize_to_uint8(image, {1, 1}).values(), std::vector<std::uint8_t>{12});
  const Image edge({1, 4}, 1, {0, 0, 255, 255});
  // Values out of range are clamped, not wrapped around.
  EXPECT_EQ(resize_to_uint8(edge, {1, 16}, Interpolation::kBicubic).values().front(), 0);
  EXPECT_EQ(resize_to_uint8(edge, {1, 16}, Interpolation::kBicubic).at(0, 10, 0), 255);
}

TEST(Resize, RefusesSizesWithoutPixels) {
  const Image image({2, 2}, 1);
  EXPECT_THROW(resize(image, {0, 3}), Error);
  EXPECT_THROW(resize(image, {3, -1}), Error);
  EXPECT_THROW(resize(Image(), {3, 3}), Error);
}

TEST(Interpolation, UsesTensorFlowsNames) {
  EXPECT_EQ(interpolation_of("Bilinear"), Interpolation::kBilinear);
  EXPECT_EQ(to_string(interpolation_of("mitchellcubic")), "mitchellcubic");
  EXPECT_THROW(interpolation_of("cubic"), Error);
}

}  // namespace
}  // namespace brigade::image
