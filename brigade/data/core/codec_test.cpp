#include "brigade/data/core/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "brigade/base/random.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

struct Point {
  double x = 0;
  std::int8_t y = 0;
  bool operator==(const Point&) const = default;
};
struct Empty {};

}  // namespace

template <>
struct Codec<Point> {
  static std::string name() { return "Point"; }
  static void encode(const Point& point, Encoder& to) { encode_all(to, point.x, point.y); }
  static Point decode(Decoder& from) {
    const auto x = Codec<double>::decode(from);
    return {x, Codec<std::int8_t>::decode(from)};
  }
};
template <>
struct Codec<Empty> {
  static std::string name() { return "Empty"; }
  static void encode(const Empty&, Encoder&) {}
  static Empty decode(Decoder&) { return {}; }
};

namespace {

using testing::error_of;
using Everything = std::tuple<bool, std::uint16_t, float, std::string, std::vector<std::string>,
                              std::vector<bool>, std::array<std::vector<std::int64_t>, 2>,
                              std::pair<std::int8_t, double>, std::optional<Point>>;

Everything example() {
  return {true,          65000,           -0.5F,       std::string("a\0b", 3), {"", "x"},
          {true, false}, {{{1, -2}, {}}}, {-7, 1e300}, Point{.x = 2.5, .y = 3}};
}

template <class T>
void expect_round_trip(const T& value, std::size_t bytes) {
  const std::string encoded = encode(value);
  EXPECT_EQ(encoded.size(), bytes);
  EXPECT_EQ(decode<T>(encoded), value);
}

TEST(Codec, DecodesWhatItEncoded) {
  expect_round_trip(true, 1);
  expect_round_trip('c', 1);
  expect_round_trip<std::int16_t>(-300, 2);
  expect_round_trip(std::numeric_limits<std::uint64_t>::max(), 8);
  expect_round_trip(std::numeric_limits<float>::infinity(), 4);
  expect_round_trip(std::string("text"), 8 + 4);
  expect_round_trip(std::vector<std::int32_t>{1, -2, 3}, 8 + 12);
  expect_round_trip(std::vector<bool>{true, false}, 8 + 2);
  expect_round_trip(std::vector<std::vector<double>>{{}, {1.5}}, 8 + 8 + 8 + 8);
  expect_round_trip(std::array<std::int64_t, 3>{1, 2, 3}, 24);
  expect_round_trip(std::pair<std::int8_t, std::string>{1, "ab"}, 1 + 8 + 2);
  expect_round_trip(std::tuple<float>{0.25F}, 4);
  expect_round_trip(std::optional<std::int64_t>(), 1);
  expect_round_trip(std::optional<std::int64_t>(-1), 9);
  expect_round_trip(std::vector<Point>{{1, 2}, {-3, -4}}, 8 + 18);
  EXPECT_EQ(decode<Everything>(encode(example())), example());
  EXPECT_TRUE(std::isnan(decode<double>(encode(std::nan("")))));
}

TEST(Codec, IsLittleEndian) {
  EXPECT_EQ(encode<std::uint32_t>(0x01020304), "\x04\x03\x02\x01");
  EXPECT_EQ(encode(1.0F), std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(encode(std::vector<std::uint16_t>{0x0102}), std::string("\1\0\0\0\0\0\0\0\2\1", 10));
}

TEST(Codec, NamesTypesByTheirEncoding) {
  EXPECT_EQ(Codec<std::int64_t>::name(), "i64");
  EXPECT_EQ(Codec<long long>::name(), "i64");
  EXPECT_EQ(Codec<float>::name(), "f32");
  EXPECT_EQ(Codec<Everything>::name(),
            "tuple<bool, u16, f32, string, vector<string>, vector<bool>, array<vector<i64>, 2>, "
            "tuple<i8, f64>, optional<Point>>");
}

TEST(Codec, EncodableIsTrueForTypesWithACodec) {
  EXPECT_TRUE((Encodable<std::vector<std::pair<Point, std::string>>>));
  EXPECT_FALSE((Encodable<std::map<int, int>>));
  EXPECT_FALSE((Encodable<std::vector<int*>>));
  EXPECT_FALSE((Encodable<std::vector<std::tuple<>>>)) << "would take no bytes";
  EXPECT_FALSE((Encodable<long double>)) << "differs between machines";
}

TEST(Codec, RefusesLengthsThatTheBytesCannotHold) {
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 61, ~std::uint64_t{0}}) {
    const std::string bytes = encode(length) + "ab";
    EXPECT_EQ(error_of([&] { decode<std::string>(bytes); }).code(), ErrorCode::kDataLoss);
    EXPECT_EQ(error_of([&] { decode<std::vector<double>>(bytes); }).code(), ErrorCode::kDataLoss);
    EXPECT_EQ(error_of([&] { decode<std::vector<std::string>>(bytes); }).code(),
              ErrorCode::kDataLoss);
    EXPECT_EQ(error_of([&] { decode<std::vector<Empty>>(bytes); }).code(), ErrorCode::kDataLoss);
  }
}

TEST(Codec, RefusesInvalidBytes) {
  EXPECT_EQ(error_of([] { decode<bool>("\2"); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(error_of([] { decode<std::optional<char>>("\3a"); }).code(), ErrorCode::kDataLoss);
  const Error with_rest = error_of([] { decode<std::int8_t>("ab"); });
  EXPECT_EQ(with_rest.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(with_rest.what()).find("1 bytes follow it"), std::string::npos);
}

TEST(Codec, RefusesElementsOfNoBytes) {
  EXPECT_EQ(error_of([] { encode(std::vector<Empty>(3)); }).code(), ErrorCode::kInvalidArgument);
}

TEST(Codec, DecodesOrRefusesAnyBytes) {
  const std::string whole = encode(example());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(error_of([&] { decode<Everything>(whole.substr(0, size)); }).code(),
              ErrorCode::kDataLoss);
  }
  base::CounterRng rng(7);
  for (int i = 0; i < 5'000; ++i) {
    std::string broken = whole;
    for (int flips = 0; flips < 3; ++flips) {
      broken[rng.uniform_below(broken.size())] = static_cast<char>(rng.uniform_below(256));
    }
    try {
      decode<Everything>(broken);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace brigade::data
