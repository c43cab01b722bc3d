#include "brigade/image/image.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::image {
namespace {

Image numbered(const Size& size, std::int64_t channels) {
  Image image(size, channels);
  for (std::int64_t i = 0; i < size.height * size.width * channels; ++i) {
    image.row(0)[i] = static_cast<std::uint8_t>(i);
  }
  return image;
}

TEST(Image, KeepsTheChannelsOfAPixelTogether) {
  const Image image = numbered({2, 3}, 3);
  EXPECT_EQ(image.at(0, 1, 2), 5);
  EXPECT_EQ(image.at(1, 0, 0), 9);
  EXPECT_EQ(image.view().at(1, 2, 1), 16);
}

TEST(Image, AWindowOfAViewIsThatPart) {
  const Image image = numbered({4, 5}, 2);
  const ImageView part = image.view().window({1, 2, 2, 3});
  EXPECT_EQ(part.at(0, 0, 0), image.at(1, 2, 0));
  EXPECT_EQ(part.window({1, 1, 1, 1}).at(0, 0, 1), image.at(2, 3, 1));
  const Image copy(part);
  EXPECT_EQ(copy.size(), (Size{2, 3}));
  EXPECT_EQ(copy.at(1, 2, 1), image.at(2, 4, 1));
}

TEST(Image, RefusesWindowsOutsideTheImage) {
  const Image image({4, 5}, 1);
  for (const Window& window : {Window{-1, 0, 2, 2}, Window{0, -1, 2, 2}, Window{3, 0, 2, 2},
                               Window{0, 4, 2, 2}, Window{0, 0, 0, 2}, Window{0, 0, 2, 0},
                               Window{0, INT64_MAX, 1, 1}, Window{INT64_MAX, 0, 1, 1}}) {
    EXPECT_THROW(image.view().window(window), Error) << to_string(window);
  }
}

TEST(Image, ReportsItsByteSize) {
  EXPECT_GE(Image({100, 50}, 3).byte_size(), 15'000U);
  EXPECT_GE(FloatImage({100, 50}, 3).byte_size(), 60'000U);
}

TEST(Image, RefusesEmptyShapesAndWrongNumbersOfValues) {
  EXPECT_THROW(Image({0, 5}, 1), Error);
  EXPECT_THROW(Image({5, -1}, 1), Error);
  EXPECT_THROW(Image({5, 5}, 5), Error);
  EXPECT_THROW(Image({INT64_MAX, INT64_MAX}, 4), Error);
  EXPECT_THROW(Image({2, 2}, 1, {1, 2, 3}), Error);
}

}  // namespace
}  // namespace brigade::image
