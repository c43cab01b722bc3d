#include "brigade/data/transforms/group_by_window.h"

#include <gtest/gtest.h>

#include "brigade/data/sources/from_generator.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

auto in_batches(std::int64_t size) {
  return [size](std::int64_t, const Dataset<std::int64_t>& window) { return window.batch(size); };
}
auto modulo(std::int64_t classes) {
  return [classes](std::int64_t x) { return x % classes; };
}

TEST(GroupByWindow, MatchesTensorFlow) {
  const Table table("windows");
  expect_matches_table(table, "range(11).group_by_window(3 classes, 2)",
                       range(11).group_by_window(modulo(3), in_batches(2), 2));
  expect_matches_table(table, "range(11).group_by_window(3 classes, 3)",
                       range(11).group_by_window(modulo(3), in_batches(2), 3));
  expect_matches_table(table, "range(10).group_by_window(2 classes, sizes 1 and 4)",
                       range(10).group_by_window(modulo(2), in_batches(4), [](std::int64_t key) {
                         return key == 0 ? 1 : 4;
                       }));
}

TEST(GroupByWindow, OfShuffledElementsResumesEverywhere) {
  const auto shuffled = range(60).shuffle(9);
  const auto grouped = shuffled.group_by_window(
      [](std::int64_t x) { return x == 7 ? 99 : x % 4; },  // one element waits until the end
      [](std::int64_t key, const Dataset<std::int64_t>& window) {
        return window.map([key](std::int64_t x) { return 100 * key + x; });
      },
      5);
  Numbers all = epoch_of(grouped);
  EXPECT_EQ(all.size(), 60U);
  EXPECT_EQ(all.back(), 9907);
  expect_contract(grouped, all, Length::kUnknown);
}

TEST(GroupByWindow, EachWindowIsShuffledDifferently) {
  const auto grouped = range(16).group_by_window(
      [](std::int64_t) { return 0; },
      [](std::int64_t, const Dataset<std::int64_t>& window) {
        return window.map([](std::int64_t x) { return x % 8; }).shuffle(8);
      },
      8);
  const Numbers all = epoch_of(grouped);
  EXPECT_NE(Numbers(all.begin(), all.begin() + 8), Numbers(all.begin() + 8, all.end()));
  expect_contract(grouped, all, Length::kUnknown);
}

TEST(GroupByWindow, ElementsWithoutAKeyFailAlone) {
  const auto grouped = numbers_with_errors(8, 5).group_by_window(
      [](std::int64_t x) -> std::int64_t {
        if (x == 3) throw Error(ErrorCode::kDataLoss, "three has no key");
        return x % 2;
      },
      in_batches(9), 2);
  // 0 and 5 cannot be made, 3 has no key.
  EXPECT_EQ(with_errors_as<Numbers>({-1}, grouped),
            (std::vector<Numbers>{{-1}, {-1}, {2, 4}, {-1}, {1, 7}, {6}}));
}

TEST(GroupByWindow, AWindowWithoutADatasetFailsAsOneElement) {
  const auto grouped = range(8).group_by_window(
      modulo(2),
      [](std::int64_t key, const Dataset<std::int64_t>& window) {
        if (key == 1) throw Error(ErrorCode::kDataLoss, "one is broken");
        return window;
      },
      2);
  EXPECT_EQ(with_errors_as<std::int64_t>(-1, grouped), (Numbers{0, 2, -1, 4, 6, -1}));
  auto iterator = grouped.iterator();
  iterator.next();
  iterator.next();
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("window 1 (key 1): one is broken"), std::string::npos)
      << error.what();
}

TEST(GroupByWindow, AnElementWithoutAWindowSizeFailsAlone) {
  const auto dataset = range(8).group_by_window(
      [](std::int64_t x) { return x % 2; },
      [](std::int64_t, const Dataset<std::int64_t>& window) { return window.batch(9); },
      [](std::int64_t key) -> std::int64_t {
        if (key == 1) throw Error(ErrorCode::kDataLoss, "no size");
        return 4;
      });
  auto iterator = dataset.iterator();
  for (const int x : {1, 3, 5}) {
    const Error error = error_of([&] { iterator.next(); });
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find(base::str_cat("element ", x)), std::string::npos)
        << error.what();
  }
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(resumed.next(), (std::vector<std::int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(iterator.next(), (std::vector<std::int64_t>{0, 2, 4, 6}));
}

TEST(GroupByWindow, RefusesWindowsOfNothing) {
  expect_invalid_argument([] { range(3).group_by_window(modulo(2), in_batches(1), 0); },
                          "window size is 0; it must be 1 or more");
  auto iterator =
      range(3).group_by_window(modulo(2), in_batches(1), [](std::int64_t) { return 0; }).iterator();
  expect_invalid_argument([&] { iterator.next(); }, "window size of key 0 is 0");
}

TEST(GroupByWindow, RefusesBrokenPositions) {
  const auto grouped = range(9).group_by_window(modulo(3), in_batches(1), 3);
  const auto state_with = [&](const char* field, io::StateTree value) {
    auto iterator = grouped.node()->iterator({});
    iterator->next();
    io::StateTree state = iterator->save();
    state["input"][field] = std::move(value);
    return state;
  };
  const auto restore = [&](const io::StateTree& state) {
    return [&grouped, state] { grouped.node()->iterator({})->restore(state); };
  };
  io::StateTree group;
  group["key"] = 1;
  group["places"].push_back(io::StateTree(100U));
  expect_invalid_argument(restore(state_with("groups", io::StateTree::List{group})),
                          "it holds element 100, outside of");
  group["places"] = io::StateTree::List{io::StateTree(1U), io::StateTree(1U)};
  expect_invalid_argument(restore(state_with("groups", io::StateTree::List{group})),
                          "element 1 twice");
  expect_invalid_argument(restore(state_with("read", 100U)), "now has fewer");
}

TEST(GroupByWindow, KeepsTheOrderWithinWindows) {
  std::optional<Order> seen;
  const auto records_order = [&](const IteratorOptions& options) {
    seen = options.order;
    return [] { return std::optional<std::int64_t>(); };
  };
  const auto inner = from_generator<std::int64_t>(records_order);
  const auto dataset = range(4).group_by_window(
      [](std::int64_t) { return 0; }, [=](std::int64_t, const auto&) { return inner; }, 2);
  EXPECT_EQ(dataset.node()->order({.order = Order::kRelaxed}), Order::kInOrder);
  epoch_of(dataset, {.order = Order::kRelaxed});
  EXPECT_EQ(seen, Order::kInOrder);
}

}  // namespace
}  // namespace brigade::data
