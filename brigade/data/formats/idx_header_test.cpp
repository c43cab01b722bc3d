#include "brigade/data/formats/idx_header.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tables.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

const std::string kTwoByThree = bytes_of_hex("00000802 00000002 00000003 010203040506");

TEST(IdxHeader, GivesShapeAndValues) {
  const IdxContent content = parse_idx_bytes(kTwoByThree, "x", 2);
  EXPECT_EQ(content.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(content.values, bytes_of_hex("010203040506"));
}

TEST(IdxHeader, RefusesEveryOtherLength) {
  for (std::size_t size = 0; size < kTwoByThree.size(); ++size) {
    EXPECT_EQ(error_of([&] { parse_idx_bytes(kTwoByThree.substr(0, size), "x", 2); }).code(),
              ErrorCode::kDataLoss);
  }
  EXPECT_EQ(error_of([&] { parse_idx_bytes(kTwoByThree + "x", "x", 2); }).code(),
            ErrorCode::kDataLoss);
  const std::string huge = bytes_of_hex("00000804 ffffffff ffffffff ffffffff ffffffff");
  EXPECT_EQ(error_of([&] { parse_idx_bytes(huge, "x", 4); }).code(), ErrorCode::kDataLoss);
}

TEST(IdxHeader, RefusesOtherKinds) {
  expect_invalid_argument([&] { parse_idx_bytes(kTwoByThree, "images", 3); }, "images");
  expect_invalid_argument([&] { parse_idx_bytes(kTwoByThree, "x", 5); }, "1 to 4");
}

}  // namespace
}  // namespace brigade::data
