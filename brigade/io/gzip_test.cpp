#include "brigade/io/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

using testing::HasSubstr;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

/// Text that does not repeat and does not fit into one piece.
std::string long_text() {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < 300'000) {
    state = state * 1664525u + 1013904223u;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

void expect_refusal(std::string_view compressed, std::size_t max_bytes, ErrorCode code,
                    std::string_view said) {
  try {
    gunzip(compressed, "images.gz", max_bytes);
    ADD_FAILURE() << "accepted " << compressed.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("images.gz"));
    EXPECT_THAT(error.what(), HasSubstr(std::string(said)));
  }
}

TEST(Gunzip, RestoresTheContent) {
  for (const std::string& text : {std::string(), std::string("hello"), std::string(1'000'000, 'x'),
                                  std::string(1 << 16, 'y'), long_text()}) {
    EXPECT_EQ(gunzip(gzip(text), "x", kNoLimit), text);
  }
}

TEST(Gunzip, ReadsSeveralMembers) {
  EXPECT_EQ(gunzip(gzip("one ") + gzip("") + gzip("two"), "x", kNoLimit), "one two");
  EXPECT_EQ(gunzip(gzip("one") + std::string(512, '\0'), "x", kNoLimit), "one");
}

TEST(Gunzip, RefusesOtherFiles) {
  expect_refusal("", kNoLimit, ErrorCode::kInvalidArgument, "is empty");
  expect_refusal("\x1f", kNoLimit, ErrorCode::kInvalidArgument, "does not begin");
  expect_refusal("<html>not found</html>", kNoLimit, ErrorCode::kInvalidArgument, "does not begin");
}

TEST(Gunzip, RefusesEveryTruncation) {
  const std::string whole = gzip("some text, some more text, and some other text");
  for (std::size_t size = 2; size < whole.size(); ++size) {
    expect_refusal(whole.substr(0, size), kNoLimit, ErrorCode::kDataLoss, "cut short");
  }
  const std::string large = gzip(long_text());
  expect_refusal(large.substr(0, large.size() / 2), kNoLimit, ErrorCode::kDataLoss, "cut short");
  expect_refusal(gzip("one") + gzip("two").substr(0, 15), kNoLimit, ErrorCode::kDataLoss,
                 "cut short");
}

TEST(Gunzip, RefusesBrokenBytes) {
  std::string wrong_checksum = gzip("hello");
  wrong_checksum[wrong_checksum.size() - 8] ^= 1;
  expect_refusal(wrong_checksum, kNoLimit, ErrorCode::kDataLoss, "incorrect data check");
  std::string wrong_length = gzip("hello");
  wrong_length[wrong_length.size() - 1] ^= 1;
  expect_refusal(wrong_length, kNoLimit, ErrorCode::kDataLoss, "incorrect length check");
  std::string wrong_method = gzip("hello");
  wrong_method[2] = 7;
  expect_refusal(wrong_method, kNoLimit, ErrorCode::kDataLoss, "broken gzip");
}

TEST(Gunzip, RefusesDataAfterTheEnd) {
  expect_refusal(gzip("one") + "garbage", kNoLimit, ErrorCode::kDataLoss, "followed by");
}

TEST(Gunzip, StopsAtTheLimit) {
  const std::string bomb = gzip(std::string(1'000'000, '\0'));
  EXPECT_EQ(gunzip(bomb, "x", 1'000'000).size(), 1'000'000u);
  expect_refusal(bomb, 999'999, ErrorCode::kResourceExhausted, "976.6 KiB");
  expect_refusal(bomb, 0, ErrorCode::kResourceExhausted, "0 B");
  EXPECT_EQ(gunzip(gzip(""), "x", 0), "");
  expect_refusal(gzip("abc") + gzip("def"), 5, ErrorCode::kResourceExhausted, "5 B");
}

}  // namespace
}  // namespace brigade::io
