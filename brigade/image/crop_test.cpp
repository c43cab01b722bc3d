#include "brigade/image/crop.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::image_of;
using testing::smooth_image;

Size size_of(const nlohmann::json& pair) {
  return {pair[0], pair[1]};
}
Window window_of(const nlohmann::json& four) {
  return {four[0], four[1], four[2], four[3]};
}

TEST(Crop, WindowsMatchTensorFlow) {
  for (const auto& row : testing::golden("crop")) {
    const Size size = size_of(row.at("size"));
    const Window expected = window_of(row.at("window"));
    if (row.contains("fraction")) {
      EXPECT_EQ(central_window(size, row.at("fraction").get<double>()), expected) << row;
    } else {
      EXPECT_EQ(window_of_aspect(size, size_of(row.at("aspect"))), expected) << row;
    }
  }
}

TEST(Crop, CropOrPadMatchesTensorFlow) {
  const auto image = image_of<std::uint8_t>(testing::golden("images").at("small"));
  for (const auto& row : testing::golden("crop or pad")) {
    EXPECT_EQ(crop_or_pad(image, size_of(row.at("size"))), image_of<std::uint8_t>(row.at("result")))
        << row.at("size");
  }
}

TEST(Crop, PadsWithZeros) {
  const Image image = smooth_image({2, 3}, 2);
  const Image padded = pad(image, 1, 2, {4, 6});
  EXPECT_EQ(Image(padded.view().window({1, 2, 2, 3})), image);
  EXPECT_EQ(padded.at(0, 2, 0), 0);
  EXPECT_EQ(padded.at(1, 5, 1), 0);
}

TEST(Crop, RefusesWhatDoesNotFit) {
  EXPECT_THROW(central_window({4, 4}, Size{5, 4}), Error);
  EXPECT_THROW(central_window({4, 4}, 0.0), Error);
  EXPECT_THROW(central_window({4, 4}, 1.1), Error);
  EXPECT_THROW(window_of_aspect({4, 4}, {0, 4}), Error);
  EXPECT_THROW(pad(Image({2, 2}, 1), 1, 0, {2, 2}), Error);
}

}  // namespace
}  // namespace brigade::image
