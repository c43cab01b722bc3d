#include "brigade/io/safetensors_header.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

constexpr auto kTwo =
    R"({"b":{"dtype":"I64","shape":[],"data_offsets":[8,16]},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";

/// Why a header is refused.
std::string reason(std::string_view json, std::uint64_t data_bytes) {
  try {
    parse_safetensors_header(json, data_bytes, "/weights");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("/weights: not a valid safetensors file: ", 0), 0U) << message;
    return message;
  }
  return "accepted";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

#define EXPECT_REFUSED(json, data_bytes, why) \
  EXPECT_NE(reason(json, data_bytes).find(why), std::string::npos) << reason(json, data_bytes)

TEST(SafetensorsHeader, SortsTensorsByTheirData) {
  const auto header = parse_safetensors_header(kTwo, 16, "f");
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype.name, "F32");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_TRUE(header.tensors[1].shape.empty());
  EXPECT_EQ(header.tensors[1].begin, 8U);
}

TEST(SafetensorsHeader, WritesWhatItReads) {
  auto header = parse_safetensors_header(kTwo, 16, "f");
  header.metadata = {{"format", "pt"}};
  const auto text = write_safetensors_header(header);
  EXPECT_EQ(text.size() % 8, 0U);
  const auto again = parse_safetensors_header(text, 16, "f");
  EXPECT_EQ(again.metadata, header.metadata);
  EXPECT_EQ(write_safetensors_header(again), text);
}

TEST(SafetensorsHeader, AcceptsEmptyTensorsAndNoTensors) {
  EXPECT_EQ(reason(one("\"F32\"", "[0,3]", "[0,0]"), 0), "accepted");
  EXPECT_EQ(reason("{}  ", 0), "accepted");
}

TEST(SafetensorsHeader, RefusesOtherJson) {
  EXPECT_REFUSED("", 0, "not JSON");
  EXPECT_REFUSED("[]", 0, "not a JSON object");
  EXPECT_REFUSED("{\"x\":1", 0, "not JSON");
  EXPECT_REFUSED("{} {}", 0, "not JSON");
  EXPECT_REFUSED("{\"\xff\":{}}", 0, "not JSON");
  EXPECT_REFUSED("{\"x\":[]}", 0, "expected exactly dtype, shape and data_offsets");
  EXPECT_REFUSED(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4,
                 "expected exactly");
  EXPECT_REFUSED(R"({"__metadata__":{"a":1}})", 0, "metadata 'a' is not a string");
  EXPECT_REFUSED(R"({"__metadata__":[]})", 0, "is not an object");
}

TEST(SafetensorsHeader, RefusesKeysThatOccurTwice) {
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_REFUSED("{\"x\":" + entry + ",\"x\":" + entry + "}", 4, "the key 'x' occurs twice");
  EXPECT_REFUSED(R"({"x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
                 "the key 'dtype' occurs twice");
}

TEST(SafetensorsHeader, RefusesDeepNestingWithoutExhaustingTheStack) {
  std::string deep = R"({"x":)";
  deep.append(1'000'000, '[');
  EXPECT_REFUSED(deep, 0, "nested too deeply");
  EXPECT_REFUSED(one("\"F32\"", "[[1]]", "[0,4]"), 4, "nested too deeply");
}

TEST(SafetensorsHeader, RefusesBadDtypesAndShapes) {
  EXPECT_REFUSED(one("\"F31\"", "[1]", "[0,4]"), 4, "tensor 'x': unknown dtype 'F31'");
  EXPECT_REFUSED(one("4", "[1]", "[0,4]"), 4, "dtype is not a string");
  EXPECT_REFUSED(one("\"F32\"", "[-1]", "[0,4]"), 4, "not a whole number");
  EXPECT_REFUSED(one("\"F32\"", "[1.0]", "[0,4]"), 4, "not a whole number");
  EXPECT_REFUSED(one("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, "not a whole number");
  EXPECT_REFUSED(one("\"F32\"", "{}", "[0,4]"), 4, "shape is not a list");
  EXPECT_REFUSED(one("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "size overflows");
  // A zero must not hide sizes whose strides overflow.
  EXPECT_REFUSED(one("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), 0, "size overflows");
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_REFUSED(one("\"F32\"", many + "]", "[0,4]"), 4, "at most 64");
}

TEST(SafetensorsHeader, RefusesInvalidOffsets) {
  EXPECT_REFUSED(one("\"F32\"", "[1]", "[0,4]"), 3, "are not within the 3 bytes");
  EXPECT_REFUSED(one("\"F32\"", "[1]", "[4,0]"), 4, "are not within");
  EXPECT_REFUSED(one("\"F32\"", "[1]", "[0,18446744073709551615]"), 4, "are not within");
  EXPECT_REFUSED(one("\"F32\"", "[1]", "[0]"), 4, "not two numbers");
  EXPECT_REFUSED(one("\"F32\"", "[1]", "[-4,0]"), 4, "not two numbers");
  EXPECT_REFUSED(one("\"F32\"", "[2]", "[0,4]"), 4, "takes 8 bytes, the offsets give it 4");
}

TEST(SafetensorsHeader, RefusesHolesOverlapsAndLeftovers) {
  const auto two = [](const std::string& second) {
    return R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":)" +
           second + "}}";
  };
  EXPECT_EQ(reason(two("[4,8]"), 8), "accepted");
  EXPECT_REFUSED(two("[5,9]"), 9, "after a hole");
  EXPECT_REFUSED(two("[3,7]"), 7, "inside another tensor's");
  EXPECT_REFUSED(two("[0,4]"), 4, "inside another tensor's");
  EXPECT_REFUSED(two("[4,8]"), 9, "ends at byte 8 of 9");
}

TEST(SafetensorsHeader, EmptyTensorsAreAllowedOnlyBetweenOthers) {
  const auto with_empty = [](const std::string& offsets) {
    return R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},"e":{"dtype":"F64","shape":[3,0],"data_offsets":)" +
           offsets + R"(},"f":{"dtype":"F64","shape":[0],"data_offsets":)" + offsets + "}}";
  };
  for (const char* offsets : {"[0,0]", "[4,4]", "[8,8]"}) {
    EXPECT_EQ(reason(with_empty(offsets), 8), "accepted") << offsets;
  }
  EXPECT_REFUSED(with_empty("[2,2]"), 8, "inside another tensor's");
  EXPECT_REFUSED(with_empty("[9,9]"), 8, "are not within");
  EXPECT_REFUSED(with_empty("[4,5]"), 8, "takes 0 bytes");
}

/// 100,000 tensors of a byte each, followed by `last`.
std::string many(const std::string& last) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += "\"v" + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
            std::to_string(i) + "," + std::to_string(i + 1) + "]},";
  }
  return text + last + "}";
}

TEST(SafetensorsHeader, RefusesOneInvalidEntryAmongAHundredThousand) {
  constexpr std::uint64_t kBytes = 100'001;
  const auto entry = [](const std::string& name, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":)" + offsets + "}";
  };
  EXPECT_EQ(reason(many(entry("last", "[100000,100001]")), kBytes), "accepted");
  EXPECT_REFUSED(many(entry("last", "[50000,50001]")), kBytes, "inside another tensor's");
  EXPECT_REFUSED(many(entry("last", "[100001,100002]")), kBytes, "are not within");
  EXPECT_REFUSED(many(entry("v7", "[100000,100001]")), kBytes, "the key 'v7' occurs twice");
}

}  // namespace
}  // namespace brigade::io
