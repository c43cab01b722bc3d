#include "brigade/image/bmp.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/broken_files.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::digest_of;
using testing::golden_file;

TEST(DecodeBmp, EqualsTensorFlowBitForBitWhereItReadsTheFile) {
  const auto files = testing::golden("bmp files");
  int compared = 0;
  for (const auto& row : testing::golden("bmp")) {
    const std::string file = testing::bytes_of(files.at(row.at("file")).get<std::string>());
    const Image image = decode_bmp(file, {.channels = row.at("channels").get<std::int64_t>()});
    if (row.at("image").is_null()) continue;  // it does not convert
    EXPECT_EQ(digest_of(image), row.at("image")) << row;
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

TEST(DecodeBmp, AppliesThePalette) {
  const auto row = testing::golden("bmp palette");
  const std::string file = testing::bytes_of(row.at("file").get<std::string>());
  EXPECT_EQ(digest_of(decode_bmp(file)), row.at("image"));
}

TEST(DecodeBmp, ReadsTopDownRows) {
  std::string file = golden_file("bmp", "32 bits");
  const Image upwards = decode_bmp(file);
  file.replace(22, 4, {static_cast<char>(-upwards.height()), '\xff', '\xff', '\xff'});
  const Image downwards = decode_bmp(file);
  ASSERT_EQ(downwards.size(), upwards.size());
  EXPECT_EQ(downwards.at(0, 3, 1), upwards.at(upwards.height() - 1, 3, 1));
}

TEST(DecodeBmp, AddsAndDropsAlpha) {
  const Image rgba = decode_bmp(golden_file("bmp", "32 bits"));
  ASSERT_EQ(rgba.channels(), 4);
  EXPECT_EQ(decode_bmp(golden_file("bmp", "24 bits"), {.channels = 4}).at(1, 1, 3), 255);
  EXPECT_EQ(decode_bmp(golden_file("bmp", "32 bits"), {.channels = 3}).at(1, 1, 2),
            rgba.at(1, 1, 2));
}

TEST(DecodeBmp, RefusesOtherKinds) {
  std::string file = golden_file("bmp", "24 bits");
  EXPECT_THROW(decode_bmp(file, {.channels = 2}), Error);
  EXPECT_THROW(decode_bmp(file, {.max_pixels = 9 * 14 - 1}), Error);
  file[30] = 1;  // run-length encoded
  EXPECT_THROW(decode_bmp(file), Error);
  EXPECT_THROW(decode_bmp("PK"), Error);
}

TEST(DecodeBmp, NamesTheByteWhereItIsBroken) {
  const auto decode = [](const std::string& bytes) { return decode_bmp(bytes); };
  std::string file =
      testing::bytes_of(testing::golden("bmp palette").at("file").get<std::string>());
  file[46] = 1;  // the palette has one color, and the pixels others
  file[47] = 0;
  const std::size_t pixels = static_cast<std::uint8_t>(file[10]) +
                             256 * static_cast<std::size_t>(static_cast<std::uint8_t>(file[11]));
  for (std::size_t i = pixels; i < file.size(); ++i) file[i] = 0;
  file[pixels + 1] = 7;
  EXPECT_EQ(testing::byte_of_error(decode, file), pixels + 1);
}

TEST(DecodeBmp, BrokenFilesDoNoHarm) {
  const auto decode = [](const std::string& bytes) {
    return decode_bmp(bytes, {.max_pixels = 1 << 15});
  };
  const std::string palette =
      testing::bytes_of(testing::golden("bmp palette").at("file").get<std::string>());
  for (const std::string& file :
       {golden_file("bmp", "24 bits"), golden_file("bmp", "32 bits"), palette}) {
    testing::expect_cut_files_are_errors(decode, file);
    testing::expect_flipped_bits_do_no_harm(decode, file, 1000);
  }
}

}  // namespace
}  // namespace brigade::image
