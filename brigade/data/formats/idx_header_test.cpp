#include "brigade/data/formats/idx_header.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tables.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

const std::string kTwoByThree = bytes_of_hex("00000802 00000002 00000003 010203040506");

TEST(IdxHeader, GivesTheShapeAndTheNumbersOfBytes) {
  const IdxHeader header = parse_idx_header(kTwoByThree, "x", 2);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.bytes, idx_header_bytes(2));
  EXPECT_EQ(header.bytes + header.value_bytes, kTwoByThree.size());
}

TEST(IdxHeader, RefusesOneThatIsTruncatedOrTooLarge) {
  for (std::size_t size = 0; size < idx_header_bytes(2); ++size) {
    EXPECT_EQ(error_of([&] { parse_idx_header(kTwoByThree.substr(0, size), "x", 2); }).code(),
              ErrorCode::kDataLoss);
  }
  const std::string huge = bytes_of_hex("00000804 ffffffff ffffffff ffffffff ffffffff");
  EXPECT_EQ(error_of([&] { parse_idx_header(huge, "x", 4); }).code(), ErrorCode::kDataLoss);
}

TEST(IdxHeader, RefusesOtherKinds) {
  expect_invalid_argument([&] { parse_idx_header(kTwoByThree, "images", 3); }, "images");
  expect_invalid_argument([&] { parse_idx_header(kTwoByThree, "x", 5); }, "1 to 4");
}

}  // namespace
}  // namespace brigade::data
