#include "brigade/data/core/replayable_input.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data::internal {
namespace {

using namespace testing;  // NOLINT: the test helpers

TEST(ReplayableInput, SeeksToAnyElement) {
  const auto dataset = range(50);
  ReplayableInput<std::int64_t> input(dataset.node()->iterator({}), std::nullopt);
  std::vector<ReplayPoint> points;
  for (int i = 0; i < 50; ++i) points.push_back(input.next().at);
  EXPECT_TRUE(input.next().result.is_end());
  EXPECT_EQ(input.position().index, 50U);
  for (const std::size_t index : {49, 0, 17, 16, 15, 31, 32, 33, 2}) {
    input.seek(points[index]);
    auto element = input.next();
    EXPECT_EQ(element.at.index, index);
    EXPECT_EQ(element.result.element, static_cast<std::int64_t>(index));
    input.seek(points[index].after());
    EXPECT_EQ(input.position().index, index + 1);
  }
}

TEST(ReplayableInput, PointsShareTheirSnapshots) {
  const auto dataset = range(40);
  ReplayableInput<std::int64_t> input(dataset.node()->iterator({}), std::nullopt);
  std::vector<std::shared_ptr<const InputSnapshot>> snapshots;
  for (int i = 0; i < 40; ++i) {
    const auto snapshot = input.next().at.snapshot;
    if (snapshots.empty() || snapshots.back() != snapshot) snapshots.push_back(snapshot);
  }
  EXPECT_EQ(snapshots.size(), 3U);  // at 0, 16 and 32
}

TEST(ReplayableInput, RefusesAPointPastTheEnd) {
  const auto longer = range(9);
  ReplayableInput<std::int64_t> of_longer(longer.node()->iterator({}), std::nullopt);
  for (int i = 0; i < 9; ++i) of_longer.next();
  const auto shorter = range(5);
  ReplayableInput<std::int64_t> input(shorter.node()->iterator({}), std::nullopt);
  expect_invalid_argument([&] { input.seek(of_longer.position()); }, "after element 9");
}

TEST(ReplayableInput, ACancelledReadLosesNoElement) {
  const concurrency::CancelToken cancel;
  const auto dataset = range(3).map([cancel](std::int64_t x) {
    cancel.throw_if_cancelled("waiting");
    return x;
  });
  ReplayableInput<std::int64_t> input(dataset.node()->iterator({}), cancel);
  input.next();
  cancel.cancel();
  EXPECT_EQ(error_of([&] { input.next(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(input.position().index, 1U);
}

}  // namespace
}  // namespace brigade::data::internal
