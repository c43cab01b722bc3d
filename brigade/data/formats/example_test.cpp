#include "brigade/data/formats/example.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/base/random.h"
#include "brigade/data/formats/example_view.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tables.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

Example some_example() {
  return {.features = {{"bytes", BytesList{"one", "", std::string("\0\xff", 2)}},
                       {"float", FloatList{1.5F, -0.0F, std::numeric_limits<float>::infinity()}},
                       {"int64", Int64List{0, 1, -1, std::numeric_limits<std::int64_t>::min()}},
                       {"empty", FloatList()},
                       {"", Int64List{300}},
                       {"none", std::monostate()}}};
}

TEST(Example, IsReadBackAsWritten) {
  EXPECT_EQ(parse_example(serialize(some_example())), some_example());
  EXPECT_EQ(parse_example(serialize(Example())), Example());
  EXPECT_EQ(parse_example(""), Example());
}

TEST(Example, IsWrittenAndReadAsByTensorFlow) {
  const Table table("example");
  const auto& written = table.at("written");
  Example expected;
  for (const auto& [name, values] : written.at("features").items()) {
    Feature& feature = expected.features[name];
    if (values.is_null()) continue;
    if (values.empty() || values[0].is_number_float()) {
      feature = values.get<FloatList>();
    } else if (values[0].is_string()) {
      feature = values.get<BytesList>();
    } else {
      feature = values.get<Int64List>();
    }
  }
  const std::string bytes = bytes_of_hex(written.at("bytes").get<std::string>());
  EXPECT_EQ(parse_example(bytes), expected);
  EXPECT_EQ(serialize(expected), bytes);
}

TEST(Example, OfTwoFeaturesWithOneNameTheLastCounts) {
  const std::string first = serialize({.features = {{"a", Int64List{1}}, {"b", Int64List{3}}}});
  const std::string second = serialize({.features = {{"a", FloatList{2}}}});
  EXPECT_EQ(parse_example(first + second),
            (Example{.features = {{"a", FloatList{2}}, {"b", Int64List{3}}}}));
}

TEST(Example, ReadsUnpackedListsAndSkipsUnknownFields) {
  // features { feature { key: "a" value { int64_list { value: 5 value: -1 } } } }, and in each
  // message a field 15 of every type.
  const std::string strange = bytes_of_hex("7801 7a0178 790102030405060708 7d01020304");
  const auto message = [&](const std::string& hex) { return strange + bytes_of_hex(hex); };
  const auto field = [](char tag, const std::string& content) {
    return std::string{tag, static_cast<char>(content.size())} + content;
  };
  const std::string list = message("0805 08ffffffffffffffffff01 0a021503");
  const std::string entry = strange + field(0x0a, "a") + field(0x12, strange + field(0x1a, list));
  std::string bytes = strange;
  const std::string features = strange + field(0x0a, entry);
  bytes += "\x0a";
  bytes += static_cast<char>(0x80 | (features.size() & 0x7f));
  bytes += static_cast<char>(features.size() >> 7);
  bytes += features;
  EXPECT_EQ(parse_example(bytes), (Example{.features = {{"a", Int64List{5, -1, 21, 3}}}}));
  const std::string floats =
      field(0x0a, field(0x0a, field(0x0a, "f") +
                                  field(0x12, field(0x12, bytes_of_hex("0d0000803f 0d00000040")))));
  EXPECT_EQ(parse_example(floats), (Example{.features = {{"f", FloatList{1, 2}}}}));
}

TEST(Example, TruncatedAnywhereIsAnErrorOrAnotherExample) {
  const std::string whole = serialize(some_example());
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const Error error = error_of([&] { parse_example(whole.substr(0, size)); });
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << size;
    EXPECT_NE(std::string(error.what()).find("at byte"), std::string::npos) << error.what();
  }
}

TEST(Example, RandomBytesAreRefusedOrRead) {
  base::CounterRng random(7);
  const std::string whole = serialize(some_example());
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string broken = whole;
    broken[random.uniform_below(broken.size())] = static_cast<char>(random.uniform_below(256));
    try {
      const Example example = parse_example(broken);
      EXPECT_EQ(parse_example(serialize(example)).features.size(), example.features.size());
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Example, RefusesInvalidMessages) {
  for (const char* hex : {"0b", "00", "0affffffffffffffffffff01", "07", "0a05 0a03 0a01"}) {
    EXPECT_EQ(error_of([&] { parse_example(bytes_of_hex(hex)); }).code(), ErrorCode::kDataLoss)
        << hex;
  }
  const std::string cut_float = bytes_of_hex("0a0d 0a0b 0a0161 1206 1204 0a02 0000");
  EXPECT_EQ(error_of([&] { parse_example(cut_float); }).code(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace brigade::data
