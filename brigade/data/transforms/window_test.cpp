#include "brigade/data/transforms/window.h"

#include <gtest/gtest.h>

#include <memory>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

/// Windows as lists, for comparing.
Dataset<Numbers> listed(const Dataset<Dataset<std::int64_t>>& windows) {
  return windows.map([](const Dataset<std::int64_t>& window) { return epoch_of(window); });
}

Dataset<Numbers> windows_of(std::int64_t count, std::int64_t size, WindowOptions options = {}) {
  return listed(range(count).window(size, options));
}

TEST(Window, MatchesTensorFlow) {
  const Table table("windows");
  constexpr auto kDrop = Remainder::kDrop;
  expect_matches_table(table, "range(10).window(3)", windows_of(10, 3));
  expect_matches_table(table, "range(10).window(3, drop_remainder)",
                       windows_of(10, 3, {.remainder = kDrop}));
  expect_matches_table(table, "range(7).window(3, shift 1)", windows_of(7, 3, {.shift = 1}));
  expect_matches_table(table, "range(7).window(3, shift 1, drop_remainder)",
                       windows_of(7, 3, {.shift = 1, .remainder = kDrop}));
  expect_matches_table(table, "range(7).window(3, shift 1, stride 2, drop_remainder)",
                       windows_of(7, 3, {.shift = 1, .stride = 2, .remainder = kDrop}));
  expect_matches_table(table, "range(7).window(3, stride 2)", windows_of(7, 3, {.stride = 2}));
  expect_matches_table(table, "range(11).window(2, shift 4)", windows_of(11, 2, {.shift = 4}));
  expect_matches_table(table, "range(10).window(2, shift 4, drop_remainder)",
                       windows_of(10, 2, {.shift = 4, .remainder = kDrop}));
  expect_matches_table(table, "range(9).window(2, shift 4, drop_remainder)",
                       windows_of(9, 2, {.shift = 4, .remainder = kDrop}));
  expect_matches_table(table, "range(2).window(3, drop_remainder)",
                       windows_of(2, 3, {.remainder = kDrop}));
  expect_matches_table(table, "range(0).window(3)", windows_of(0, 3));
}

TEST(Window, OfWhatNeverEndsNeverEnds) {
  const Table table("windows");
  const auto windows = range(3).repeat().window(2);
  EXPECT_EQ(windows.cardinality(), table.cardinality("range(3).repeat().window(2)"));
  EXPECT_EQ(epoch_of(listed(windows).take(4)),
            table.elements<Numbers>("range(3).repeat().window(2)"));
}

TEST(Window, OfShuffledElementsResumesEverywhere) {
  const auto shuffled = range(40).shuffle(7);
  const Numbers order = epoch_of(shuffled);
  std::vector<Numbers> expected;
  for (std::size_t i = 0; i + 4 <= order.size(); i += 3) {
    expected.emplace_back(order.begin() + std::ptrdiff_t(i), order.begin() + std::ptrdiff_t(i + 4));
  }
  expect_contract(listed(shuffled.window(4, {.shift = 3, .remainder = Remainder::kDrop})),
                  expected);
}

TEST(Window, IsADatasetLikeOthers) {
  const auto window = range(10).window(4, {.shift = 2}).iterator().next();
  ASSERT_TRUE(window.has_value());
  expect_contract(*window, {0, 1, 2, 3});
  expect_contract(window->batch(3), {{0, 1, 2}, {3}});
  EXPECT_EQ(window->describe(), "a window of 4");
}

TEST(Window, FlatMapMakesOneDatasetOfWindows) {
  const auto batches =
      range(6)
          .window(3, {.shift = 1, .remainder = Remainder::kDrop})
          .flat_map([](const Dataset<std::int64_t>& window) { return window.batch(3); });
  expect_contract(batches, {{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}}, Length::kUnknown);
}

TEST(Window, HoldsElementsOfOverlappingWindowsOnce) {
  const auto shared = range(6).map([](std::int64_t x) { return std::make_shared<int>(int(x)); });
  auto iterator = shared.window(3, {.shift = 1}).iterator();
  const auto first = epoch_of(*iterator.next());
  const auto second = epoch_of(*iterator.next());
  EXPECT_EQ(first[1], second[0]);
  EXPECT_EQ(first[2], second[1]);
}

TEST(Window, AnElementThatFailsDoesSoInEachOfItsWindows) {
  auto iterator = numbers_with_errors(8, 5).skip(1).window(3, {.shift = 2}).iterator();
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, *iterator.next()), (Numbers{1, 2, 3}));
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, *iterator.next()), (Numbers{3, 4, -1}));
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, *iterator.next()), (Numbers{-1, 6, 7}));
}

TEST(Window, AHugeSizeTakesWhatThereIs) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_EQ(epoch_of(windows_of(3, huge, {.shift = huge, .stride = huge})),
            (std::vector<Numbers>{{0}}));
  expect_contract(windows_of(3, huge), {{0, 1, 2}});
}

TEST(Window, RefusesNumbersBelowOne) {
  expect_invalid_argument([] { range(3).window(0); }, "size is 0; it must be 1 or more");
  expect_invalid_argument([] { range(3).window(1, {.shift = 0}); }, "shift is 0");
  expect_invalid_argument([] { range(3).window(1, {.stride = -1}); }, "stride is -1");
}

TEST(Window, DescribesItself) {
  EXPECT_EQ(range(9).window(3).describe(), "range(9) | window(3)");
  const WindowOptions options{.shift = 1, .stride = 2, .remainder = Remainder::kDrop};
  EXPECT_EQ(range(9).window(3, options).describe(),
            "range(9) | window(3, shift 1, stride 2, without remainder)");
}

TEST(Window, WarnsThatShardsHaveOtherWindowsThanTheWhole) {
  EXPECT_EQ(range(9).window(3).sharding().counting_step, "");
  EXPECT_EQ(range(9).window(3, {.shift = 1}).sharding().counting_step, "window(3, shift 1)");
  EXPECT_EQ(range(9).window(3, {.remainder = Remainder::kDrop}).sharding().counting_step,
            "window(3, without remainder)");
}

}  // namespace
}  // namespace brigade::data
