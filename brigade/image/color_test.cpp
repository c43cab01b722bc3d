#include "brigade/image/color.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "brigade/base/error.h"
#include "brigade/image/normalize.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::image_of;
using testing::largest_difference;

TEST(Color, MatchesTensorFlow) {
  const auto image = image_of<std::uint8_t>(testing::golden("images").at("small"));
  const std::map<std::string, FloatImage (*)(FloatImage, float)> of_floats = {
      {"brightness", adjust_brightness},
      {"contrast", adjust_contrast},
      {"saturation", adjust_saturation},
      {"hue", adjust_hue}};
  const std::map<std::string, Image (*)(const ImageView&, float)> of_bytes = {
      {"brightness", adjust_brightness},
      {"contrast", adjust_contrast},
      {"saturation", adjust_saturation},
      {"hue", adjust_hue}};
  for (const auto& row : testing::golden("color")) {
    const auto change = row.at("change").get<std::string>();
    const auto amount = row.at("amount").get<float>();
    const auto floats = image_of<float>(row.at("floats"));
    EXPECT_LE(
        largest_difference(of_floats.at(change)(to_float(image), amount).values(), floats.values()),
        1e-5)
        << change << " by " << amount;
    EXPECT_LE(largest_difference(of_bytes.at(change)(image, amount).values(),
                                 image_of<std::uint8_t>(row.at("bytes")).values()),
              1)
        << change << " by " << amount;
  }
}

TEST(Color, NeutralParametersChangeNothing) {
  const Image image = testing::smooth_image({8, 9}, 3);
  EXPECT_EQ(adjust_brightness(image, 0), image);
  EXPECT_EQ(adjust_contrast(image, 1), image);
  EXPECT_EQ(adjust_saturation(image, 1), image);
  EXPECT_EQ(adjust_hue(image, 0), image);
  EXPECT_EQ(adjust_hue(image, 1), image);
}

TEST(Color, GrayHasNoHue) {
  const Image gray({1, 2}, 3, {90, 90, 90, 0, 0, 0});
  EXPECT_EQ(adjust_hue(gray, 0.3F), gray);
  EXPECT_EQ(adjust_saturation(gray, 3), gray);
}

TEST(Color, HueNeedsThreeChannels) {
  EXPECT_THROW(adjust_hue(Image({2, 2}, 1), 0.1F), Error);
  EXPECT_THROW(adjust_saturation(Image({2, 2}, 4), 0.1F), Error);
  EXPECT_THROW(adjust_hue(Image({2, 2}, 3), 1.1F), Error);
}

}  // namespace
}  // namespace brigade::image
