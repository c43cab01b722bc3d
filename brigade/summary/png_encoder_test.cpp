#include "brigade/summary/png_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::summary {
namespace {

using testing::HasSubstr;

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<std::uint8_t>(byte);
  return value;
}

/// The parts of a PNG file that a decoder needs, with verified checksums.
struct Decoded {
  std::string header;
  std::string rows;
};

Decoded decode(std::string_view png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  png.remove_prefix(8);
  Decoded result;
  std::string packed;
  std::string last;
  while (!png.empty()) {
    const std::uint32_t size = big_endian(png);
    const std::string_view body = png.substr(4, 4 + size);
    EXPECT_EQ(big_endian(png.substr(8 + size)),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()), 4 + size));
    last = body.substr(0, 4);
    if (last == "IHDR") result.header = body.substr(4);
    if (last == "IDAT") packed += body.substr(4);
    png.remove_prefix(12 + size);
  }
  EXPECT_EQ(last, "IEND");
  result.rows.resize(1 << 16);
  uLongf size = result.rows.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(result.rows.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  result.rows.resize(size);
  return result;
}

void expect_refused(const ImageView& image, const std::string& words) {
  try {
    encode_png(image);
    FAIL() << "did not throw: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(Png, HoldsEveryPixelOfEveryKindOfImage) {
  const std::string kinds("\0\0\4\2\6", 5);
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(2 * 3 * channels));
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{250});
    const Decoded decoded = decode(encode_png({2, 3, channels, pixels}));
    const std::string kind(1, kinds[static_cast<std::size_t>(channels)]);
    EXPECT_EQ(decoded.header, std::string("\0\0\0\3\0\0\0\2\x08", 9) + kind + std::string(3, '\0'));
    const std::string bytes(pixels.begin(), pixels.end());
    const std::size_t row = bytes.size() / 2;
    const std::string no_filter(1, '\0');
    EXPECT_EQ(decoded.rows, no_filter + bytes.substr(0, row) + no_filter + bytes.substr(row));
  }
}

TEST(Png, RefusesInvalidImages) {
  const std::vector<std::uint8_t> pixels(12);
  expect_refused({2, 3, 0, pixels}, "not 0");
  expect_refused({2, 3, 5, pixels}, "not 5");
  expect_refused({0, 3, 1, pixels}, "no pixels");
  expect_refused({2, -3, 1, pixels}, "no pixels");
  expect_refused({2, 3, 1, pixels}, "takes 6 bytes, not 12");
  expect_refused({1 << 30, 2, 1, pixels}, "larger than 1 GiB");
  expect_refused({std::int64_t{1} << 62, 4, 4, pixels}, "larger than 1 GiB");
}

}  // namespace
}  // namespace brigade::summary
