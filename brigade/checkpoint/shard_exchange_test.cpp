#include <gtest/gtest.h>

#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

TEST(ShardMessages, ComeThroughAsTheyWere) {
  const Announcement announced{.save = 3,
                               .folder = ".ckpt-7.ab.saving",
                               .digest = "d",
                               .left_out = {1, 4},
                               .has_ended = true};
  const auto read = Announcement::parse(announced.text());
  EXPECT_EQ(read.save, 3);
  EXPECT_EQ(read.folder, announced.folder);
  EXPECT_EQ(read.digest, "d");
  EXPECT_EQ(read.left_out, announced.left_out);
  EXPECT_TRUE(read.has_ended);

  const ShardReport report{.save = 9,
                           .result = ShardReport::Result::kFailed,
                           .files = {{"variables-00001-of-00001.safetensors",
                                      {.bytes = 1ULL << 40, .crc32c = 0xFFFFFFFF}}},
                           .code = ErrorCode::kResourceExhausted,
                           .reason = "disk \xFF full"};
  const auto heard = ShardReport::parse(report.text());
  EXPECT_EQ(heard.save, 9);
  EXPECT_EQ(heard.result, ShardReport::Result::kFailed);
  EXPECT_EQ(heard.files, report.files);
  EXPECT_EQ(heard.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(heard.reason, "disk \xEF\xBF\xBD full");  // text that is not UTF-8 is mended
  EXPECT_FALSE(heard.has_ended);
}

TEST(ShardMessages, NothingPostedIsOfNoSave) {
  EXPECT_EQ(Announcement::parse("").save, 0);
  EXPECT_EQ(ShardReport::parse("").save, 0);
}

TEST(ShardMessages, RefuseWhatTheyAreNot) {
  for (const char* text : {"{", "[]", "{}", "{\"save\":\"x\"}"}) {
    EXPECT_EQ(testing::caught([&] { Announcement::parse(text); }).code, ErrorCode::kDataLoss);
    EXPECT_EQ(testing::caught([&] { ShardReport::parse(text); }).code, ErrorCode::kDataLoss);
  }
}

}  // namespace

}  // namespace brigade::checkpoint
