#include "brigade/data/core/source.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Strings = std::vector<std::string>;

TEST(Source, RangeKeepsTheContract) {
  expect_contract(range(6), {0, 1, 2, 3, 4, 5});
  expect_contract(range(0), {});
}

TEST(Source, ElementsKeepTheContract) {
  expect_contract(from_elements(Strings{"a", "b"}), Strings{"a", "b"});
}

TEST(Source, RefusesNegativeSizes) {
  expect_invalid_argument([] { range(-1); }, "size is -1; it must be 0 or more");
}

TEST(Source, RefusesAPositionPastItsEnd) {
  auto longer = range(5).iterator();
  while (longer.next()) {
  }
  expect_invalid_argument(
      [&] { range(4).node()->iterator({})->restore(longer.save().at("position")); }, "only 4");
}

TEST(Source, ContinuesAfterAnElementThatFails) {
  const auto dataset = from_indexed<int>(
      3,
      [](std::int64_t i) {
        if (i == 1) throw Error(ErrorCode::kDataLoss, "one is broken");
        return static_cast<int>(i);
      },
      "failing");
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), 2);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

}  // namespace
}  // namespace brigade::data
