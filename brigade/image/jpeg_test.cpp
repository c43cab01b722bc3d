#include "brigade/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/image/testing/broken_files.h"
#include "brigade/image/testing/golden.h"

namespace brigade::image {
namespace {

using testing::digest_of;
using testing::golden_file;
using ::testing::HasSubstr;
using testing::smooth_image;

JpegDecodeOptions options_of(const nlohmann::json& row) {
  JpegDecodeOptions options{.channels = row.at("channels").get<std::int64_t>(),
                            .ratio = row.at("ratio").get<std::int64_t>()};
  if (row.at("dct") == "INTEGER_ACCURATE") options.dct = DctMethod::kAccurate;
  const auto& window = row.at("window");
  if (!window.is_null()) options.window = Window{window[0], window[1], window[2], window[3]};
  return options;
}

ErrorCode code_of(const std::string& bytes, const JpegDecodeOptions& options = {}) {
  try {
    decode_jpeg(bytes, options);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInternal;
}

TEST(DecodeJpeg, EqualsTensorFlowBitForBit) {
  const auto files = testing::golden("jpeg files");
  int refused = 0;
  for (const auto& row : testing::golden("jpeg")) {
    const std::string file = testing::bytes_of(files.at(row.at("file")).get<std::string>());
    if (row.at("image").is_null()) {
      EXPECT_THROW(decode_jpeg(file, options_of(row)), Error) << row;
      ++refused;
    } else {
      EXPECT_EQ(digest_of(decode_jpeg(file, options_of(row))), row.at("image")) << row;
    }
  }
  EXPECT_EQ(refused, 2);  // CMYK as gray
}

TEST(DecodeJpeg, GivesAnOpaqueFourthChannel) {
  const std::string file = golden_file("jpeg", "420");
  const Image rgb = decode_jpeg(file);
  const Image rgba = decode_jpeg(file, {.channels = 4});
  ASSERT_EQ(rgba.channels(), 4);
  EXPECT_EQ(rgba.at(7, 9, 2), rgb.at(7, 9, 2));
  EXPECT_EQ(rgba.at(7, 9, 3), 255);
  EXPECT_EQ(decode_jpeg(golden_file("jpeg", "cmyk"), {.channels = 4}).at(7, 9, 3), 255);
}

TEST(DecodeJpeg, DecodesAWindowOfAScaledImage) {
  const std::string file = golden_file("jpeg", "444");
  const Image half = decode_jpeg(file, {.ratio = 2});
  const Window window{3, 5, 11, 13};
  EXPECT_EQ(decode_jpeg(file, {.ratio = 2, .window = window}), Image(half.view().window(window)));
}

TEST(DecodeJpeg, DoesNotReadBelowTheWindow) {
  const std::string file = encode_jpeg(smooth_image({400, 300}, 3));
  const JpegDecodeOptions top{.window = Window{3, 40, 80, 90}};
  EXPECT_EQ(decode_jpeg(file.substr(0, file.size() / 2), top), decode_jpeg(file, top));
  EXPECT_EQ(code_of(file.substr(0, file.size() / 2), {.window = Window{300, 40, 80, 90}}),
            ErrorCode::kDataLoss);
}

TEST(DecodeJpeg, RefusesWindowsOutsideTheImageAndUnknownOptions) {
  const std::string file = golden_file("jpeg", "420");
  EXPECT_EQ(code_of(file, {.window = Window{40, 0, 6, 6}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(file, {.ratio = 2, .window = Window{20, 0, 6, 6}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(file, {.channels = 2}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(file, {.ratio = 3}), ErrorCode::kInvalidArgument);
}

TEST(DecodeJpeg, ErrorsNameTheReason) {
  EXPECT_EQ(code_of(""), ErrorCode::kDataLoss);
  try {
    decode_jpeg("no image at all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("Not a JPEG file: starts with 0x6e 0x6f"));
  }
  EXPECT_EQ(code_of(golden_file("jpeg", "cmyk"), {.channels = 1}), ErrorCode::kUnimplemented);
}

TEST(DecodeJpeg, NamesTheByteWhereItIsBroken) {
  const auto decode = [](const std::string& bytes) { return decode_jpeg(bytes); };
  std::string file = golden_file("jpeg", "420");
  const std::size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file[frame + 3] = '\x05';  // a length that does not fit what follows
  const auto offset = testing::byte_of_error(decode, file);
  ASSERT_TRUE(offset);
  EXPECT_GE(*offset, frame);
  EXPECT_LE(*offset, frame + 20);
}

TEST(DecodeJpeg, RefusesMorePixelsThanAllowed) {
  const std::string file = golden_file("jpeg", "420");
  EXPECT_EQ(code_of(file, {.max_pixels = 45 * 61 - 1}), ErrorCode::kResourceExhausted);
  EXPECT_EQ(decode_jpeg(file, {.max_pixels = 45 * 61}).height(), 45);
}

TEST(DecodeJpeg, TruncatedFilesAreErrors) {
  const auto decode = [](const std::string& bytes) { return decode_jpeg(bytes); };
  testing::expect_cut_files_are_errors(decode, golden_file("jpeg", "420"));
  testing::expect_cut_files_are_errors(decode, golden_file("jpeg", "progressive"));
}

TEST(DecodeJpeg, FilesWithoutAnEndMarkerAreErrors) {
  for (int quality = 1; quality <= 100; ++quality) {
    const std::string file = encode_jpeg(smooth_image({17, 23}, 3), {.quality = quality});
    for (const std::size_t missing : {1, 2}) {
      EXPECT_EQ(code_of(file.substr(0, file.size() - missing)), ErrorCode::kDataLoss) << quality;
    }
  }
}

TEST(DecodeJpeg, FlippedBitsDoNoHarm) {
  for (const char* name : {"420", "progressive", "cmyk", "restarts", "422"}) {
    testing::expect_flipped_bits_do_no_harm(
        [](const std::string& bytes) { return decode_jpeg(bytes, {.max_pixels = 1 << 15}); },
        golden_file("jpeg", name), 400);
    testing::expect_flipped_bits_do_no_harm(
        [](const std::string& bytes) {
          try {
            return decode_jpeg(bytes, {.window = Window{9, 17, 20, 20}, .max_pixels = 1 << 15});
          } catch (const Error& error) {  // the image may have become too small
            if (error.code() != ErrorCode::kInvalidArgument) throw;
            return Image({1, 1}, 1);
          }
        },
        golden_file("jpeg", name), 400);
  }
}

TEST(DecodeJpeg, RefusesAFileWithTooManyScans) {
  const std::string file = golden_file("jpeg", "progressive");
  const std::size_t scan = file.rfind("\xff\xda");
  std::string bomb = file.substr(0, scan);
  for (int i = 0; i < 2000; ++i) bomb += file.substr(scan, file.size() - 2 - scan);
  EXPECT_EQ(code_of(bomb + "\xff\xd9"), ErrorCode::kDataLoss);
}

TEST(JpegSize, IsReadFromTheHeader) {
  const std::string file = golden_file("jpeg", "420");
  EXPECT_EQ(jpeg_size(file), (Size{45, 61}));
  EXPECT_EQ(jpeg_size(file.substr(0, 700)), (Size{45, 61}));
  EXPECT_THROW(jpeg_size(file.substr(0, 20)), Error);
  EXPECT_THROW(jpeg_size(""), Error);
}

TEST(EncodeJpeg, RoundTripIsNearlyLossless) {
  for (const std::int64_t channels : {1, 3}) {
    const Image image = smooth_image({50, 70}, channels);
    for (const auto scans :
         {JpegEncodeOptions::Scans::kBaseline, JpegEncodeOptions::Scans::kProgressive}) {
      const std::string file = encode_jpeg(
          image, {.quality = 98, .subsampling = ChromaSubsampling::kNone, .scans = scans});
      EXPECT_LE(testing::largest_difference(decode_jpeg(file).values(), image.values()), 8);
    }
  }
}

TEST(EncodeJpeg, WritesFilesLargerThanItsFirstBuffer) {
  const Image image = smooth_image({600, 700}, 3);
  EXPECT_GT(encode_jpeg(image, {.quality = 100}).size(), std::size_t{1} << 15);
  EXPECT_LT(encode_jpeg(image, {.quality = 20}).size(), encode_jpeg(image).size());
  EXPECT_EQ(decode_jpeg(encode_jpeg(image, {.quality = 100})).size(), (Size{600, 700}));
}

TEST(EncodeJpeg, RefusesWhatJpegCannotHold) {
  EXPECT_THROW(encode_jpeg(Image({2, 2}, 4)), Error);
  EXPECT_THROW(encode_jpeg(Image({2, 2}, 3), {.quality = 0}), Error);
  EXPECT_THROW(encode_jpeg(Image({70'000, 1}, 1)), Error);
}

}  // namespace
}  // namespace brigade::image
