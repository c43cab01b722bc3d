#include "brigade/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::golden_file;
using ::testing::HasSubstr;

TEST(DecodeImage, PicksTheDecoderByTheFirstBytes) {
  for (const auto& [kind, name] : {std::pair{"jpeg", "420"}, std::pair{"png", "rgb"}}) {
    const std::string file = golden_file(kind, name);
    EXPECT_EQ(decode_image(file).size(), (Size{45, 61}));
    EXPECT_EQ(decode_image(file, {.channels = 1}).channels(), 1);
    EXPECT_EQ(decode_image(file, {.channels = 4}).channels(), 4);
    EXPECT_THROW(decode_image(file, {.max_pixels = 100}), Error);
  }
  EXPECT_EQ(decode_image(golden_file("bmp", "24 bits")).size(), (Size{9, 14}));
}

TEST(DecodeImage, ErrorsNameTheSupportedFormats) {
  try {
    decode_image("GIF89a and so on");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("PNG, JPEG or BMP"));
  }
  for (const char* bytes : {"", "hello", "\x89PN"}) {
    try {
      decode_image(bytes);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_THAT(error.what(), HasSubstr("JPEG, PNG or BMP"));
    }
  }
}

}  // namespace
}  // namespace brigade::image
