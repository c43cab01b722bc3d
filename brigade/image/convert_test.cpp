#include "brigade/image/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

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
