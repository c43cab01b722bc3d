#include "brigade/summary/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/summary/proto/event.pb.h"

namespace brigade::summary {
namespace {

using testing::HasSubstr;

Event with_values(std::vector<TaggedValue> values) {
  return {.wall_time = 1.5, .step = 7, .content = Summary{std::move(values)}};
}

void expect_refused(const Event& event, const std::string& words) {
  try {
    encode_event(event);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST(EventCodec, EveryKindOfEventIsDecoded) {
  const Histogram histogram{-1, 2, 3, 4, 5, {0, 1e300}, {1, 2}};
  const std::vector<Event> events = {
      {1.25, 0, FileVersion{"brain.Event:2"}},
      {1.5, -3, Summary{}},
      with_values({{"loss", Scalar{0.25f}},
                   {"h", histogram},
                   {"i", EncodedImage{2, 3, 1, std::string("\x89PNG\0", 5)}},
                   {"t", Text{"# gr\xc3\xbc\xc3\x9f"}},
                   {"unknown", std::monostate()}}),
      {1e9 + 0.125, std::int64_t{1} << 40, GraphContent{"graph"}},
      {2, 5, RunMetadataContent{"step_5", "bytes"}},
      {3, 100, SessionStart{}},
      {4, 1, std::monostate()}};
  for (const Event& event : events) EXPECT_EQ(decode_event(encode_event(event)), event);
}

TEST(EventCodec, WritesTheFormatOfTensorFlow) {
  const Event event{1.0, 300, Summary{{{"ab", Scalar{1.0f}}}}};
  const std::string expected(
      "\x09\0\0\0\0\0\0\xf0\x3f"  // 1: double 1.0
      "\x10\xac\x02"              // 2: varint 300
      "\x2a\x0b\x0a\x09\x0a\x02"  // 5, 1, 1
      "ab"
      "\x15\0\0\x80\x3f",  // 2: float 1.0
      9 + 3 + 6 + 2 + 5);
  EXPECT_EQ(encode_event(event), expected);
}

TEST(EventCodec, DecodesForeignTensorsAsUnknownValues) {
  proto::Event message;
  proto::Summary::Value& value = *message.mutable_summary()->add_value();
  value.set_tag("accuracy");
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
  value.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  EXPECT_EQ(decode_event(message.SerializeAsString()),
            (Event{0, 0, Summary{{{"accuracy", std::monostate()}}}}));
}

TEST(EventCodec, RefusesInvalidUtf8) {
  expect_refused(with_values({{"\xff", Scalar{}}}), "the tag");
  expect_refused(with_values({{"t", Text{"\xff"}}}), "the text \"t\"");
  expect_refused({0, 0, RunMetadataContent{"\xff", ""}}, "the tag");
}

TEST(EventCodec, RefusesOtherBytes) {
  const std::string whole = encode_event(with_values({{"loss", Scalar{1}}}));
  for (std::size_t size = 10; size + 1 < whole.size(); ++size) {
    if (size == 11) continue;  // the end of a field: a complete event without a summary
    try {
      decode_event(whole.substr(0, size));
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace brigade::summary
