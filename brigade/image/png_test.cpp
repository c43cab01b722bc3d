#include "brigade/image/png.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/image/testing/broken_files.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::digest_of;
using testing::golden_file;
using testing::smooth_image;

bool has_few_bits(const nlohmann::json& name) {
  return name == "palette" || name == "palette of 2 bits" || name == "1 bit";
}

TEST(DecodePng, EqualsTensorFlowBitForBit) {
  const auto files = testing::golden("png files");
  for (const auto& row : testing::golden("png")) {
    const std::string file = testing::bytes_of(files.at(row.at("file")).get<std::string>());
    const std::int64_t channels = row.at("channels");
    const Image image = decode_png(file, {.channels = channels});
    if (row.at("image").is_null()) {  // TensorFlow has no 2 channels; nothing else is refused
      EXPECT_EQ(channels, 2) << row;
      EXPECT_EQ(image.channels(), 2);
    } else if (channels == 4 && has_few_bits(row.at("file"))) {
      EXPECT_EQ(image.at(5, 5, 3), 255) << row;
    } else {
      EXPECT_EQ(digest_of(image), row.at("image")) << row;
    }
  }
}

TEST(DecodePng, RefusesMorePixelsThanAllowedAndOtherChannels) {
  const std::string file = golden_file("png", "gray");
  try {
    decode_png(file, {.max_pixels = 33 * 20 - 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  }
  EXPECT_NO_THROW(decode_png(file, {.max_pixels = 33 * 20}));
  EXPECT_THROW(decode_png(file, {.channels = 5}), Error);
}

TEST(DecodePng, TruncatedFilesAreErrors) {
  const auto decode = [](const std::string& bytes) { return decode_png(bytes); };
  for (const char* name : {"rgba", "palette with key", "16 bits", "1 bit"}) {
    testing::expect_cut_files_are_errors(decode, golden_file("png", name));
  }
}

TEST(DecodePng, NamesTheByteWhereItIsBroken) {
  const auto decode = [](const std::string& bytes) { return decode_png(bytes); };
  std::string file = golden_file("png", "rgba");
  file[20] ^= 1;  // of the head, whose checksum ends at byte 33
  EXPECT_EQ(testing::byte_of_error(decode, file), 33U);
}

TEST(DecodePng, FlippedBitsDoNoHarm) {
  for (const char* name : {"rgba", "palette with key", "16 bits", "1 bit", "gray with key"}) {
    testing::expect_flipped_bits_do_no_harm(
        [](const std::string& bytes) {
          return decode_png(bytes, {.channels = 3, .max_pixels = 1 << 15});
        },
        golden_file("png", name), 400);
  }
}

TEST(EncodePng, RoundTripIsLossless) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Image image = smooth_image({19, 23}, channels);
    EXPECT_EQ(decode_png(encode_png(image)), image);
    EXPECT_EQ(decode_png(encode_png(image, {.use_filters = false})), image);
    const Window window{2, 3, 10, 11};
    EXPECT_EQ(decode_png(encode_png(image.view().window(window))),
              Image(image.view().window(window)));
  }
}

TEST(EncodePng, RefusesImagesWithoutPixelsAndOtherChannels) {
  const std::vector<std::uint8_t> pixels(30);
  const std::vector<std::pair<Size, std::int64_t>> invalid = {
      {{2, 3}, 0}, {{2, 3}, 5}, {{0, 3}, 1}, {{2, -3}, 1}};
  for (const auto& [size, channels] : invalid) {
    EXPECT_THROW(encode_png(ImageView(pixels.data(), size, channels, 15)), Error);
  }
}

}  // namespace
}  // namespace brigade::image
