#include "brigade/io/tensor_slice_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace brigade::io {
namespace {

std::string from_hex(std::string_view hex) {
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return text;
}

// The keys that TensorFlow 2.21 wrote for slices [start, start + 1) of [2^62, 1], the second
// dimension 0,1 (checkpoint/testing/make_tf_bundles.py, "slices"): numbers of 1 to 10 bytes.
TEST(TensorSliceKey, IsTensorFlowsForNumbersOfEveryLength) {
  const std::vector<std::pair<std::int64_t, std::string>> known = {
      {1, "81"},
      {63, "bf"},
      {64, "c040"},
      {8191, "dfff"},
      {8192, "e02000"},
      {(1 << 20) - 1, "efffff"},
      {1 << 20, "f0100000"},
      {(1 << 27) - 1, "f7ffffff"},
      {1 << 27, "f808000000"},
      {std::int64_t{1} << 34, "fc0400000000"},
      {std::int64_t{1} << 41, "fe020000000000"},
      {std::int64_t{1} << 48, "ff01000000000000"},
      {std::int64_t{1} << 55, "ff8080000000000000"},
      {(std::int64_t{1} << 62) - 2, "ffbffffffffffffffe"}};
  for (const auto& [start, code] : known) {
    const std::vector<SliceExtent> extents = {{.start = start, .length = 1},
                                              {.start = 0, .length = 1}};
    EXPECT_EQ(tensor_slice_key("v", extents), from_hex("0076000101"
                                                       "02" +
                                                       code + "818081"))
        << start;
  }
}

TEST(TensorSliceKey, IsTensorFlowsForSpecialBytesAndWholeDimensions) {
  const std::vector<SliceExtent> extents = {{.start = 0, .length = 2}, {}};
  EXPECT_EQ(tensor_slice_key(std::string("a\xff\0b", 4), extents), from_hex("0061ff0000ff620001"
                                                                            "0102"
                                                                            "8082"
                                                                            "807f"));
}

TEST(TensorSliceKey, HasAZeroForNoDimensions) {
  EXPECT_EQ(tensor_slice_key("v", {}), from_hex("0076000100"));
}

// The laws of the code, which no value of a checkpoint needs: order, and the most negative number.
TEST(TensorSliceKey, OrdersAsTheNumbersDo) {
  const auto key = [](std::int64_t start) {
    const SliceExtent extent{.start = start, .length = 0};
    return tensor_slice_key("v", {&extent, 1});
  };
  std::vector<std::int64_t> numbers = {INT64_MIN, INT64_MIN + 1, -1,       0,
                                       1,         INT64_MAX - 1, INT64_MAX};
  for (int bit = 1; bit < 62; ++bit) {
    for (const std::int64_t off : {-1, 0, 1}) {
      numbers.push_back((std::int64_t{1} << bit) + off);
      numbers.push_back(-(std::int64_t{1} << bit) + off);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    EXPECT_LT(key(numbers[i - 1]), key(numbers[i])) << numbers[i];
  }
}

}  // namespace
}  // namespace brigade::io
