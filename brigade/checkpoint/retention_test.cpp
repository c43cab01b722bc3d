#include "brigade/checkpoint/retention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

using std::chrono::milliseconds;

std::vector<Candidate> candidates(const std::vector<double>& losses) {
  std::vector<Candidate> result;
  for (const double loss : losses) {
    result.push_back({.number = static_cast<std::int64_t>(result.size()) + 1,
                      .is_kept = false,
                      .metrics = {{"loss", loss}}});
  }
  return result;
}

SaverOptions options(std::size_t keep_last) {
  return {.directory = "/d", .keep_last = keep_last};
}

using Numbers = std::vector<std::int64_t>;

TEST(Retention, KeepsTheLast) {
  EXPECT_EQ(to_remove(candidates({1, 1, 1, 1}), options(2)), (Numbers{1, 2}));
  EXPECT_EQ(to_remove(candidates({1, 1}), options(2)), Numbers{});
  EXPECT_EQ(to_remove(candidates({1, 1, 1, 1}), options(0)), Numbers{});
}

TEST(Retention, KeepsTheBest) {
  SaverOptions lowest = options(1);
  lowest.best_of = {.metric = "loss", .best = BestIs::kLowest};
  EXPECT_EQ(to_remove(candidates({3, 1, 2, 9}), lowest), (Numbers{1, 3}));
  SaverOptions two = lowest;
  two.best_of->count = 2;
  EXPECT_EQ(to_remove(candidates({3, 1, 2, 9}), two), (Numbers{1}));
  SaverOptions highest = options(1);
  highest.best_of = {.metric = "loss", .best = BestIs::kHighest};
  EXPECT_EQ(to_remove(candidates({3, 1, 2, 0}), highest), (Numbers{2, 3}));
}

TEST(Retention, OfEquallyGoodOnesTheNewerIsKept) {
  SaverOptions lowest = options(1);
  lowest.best_of = {.metric = "loss", .best = BestIs::kLowest};
  EXPECT_EQ(to_remove(candidates({1, 1, 2}), lowest), (Numbers{1}));
}

TEST(Retention, IgnoresNanAndMissingMetrics) {
  SaverOptions lowest = options(1);
  lowest.best_of = {.metric = "loss", .best = BestIs::kLowest};
  EXPECT_EQ(to_remove(candidates({std::nan(""), 5, 9}), lowest), (Numbers{1}));
  lowest.best_of->metric = "other";
  EXPECT_EQ(to_remove(candidates({1, 2, 3}), lowest), (Numbers{1, 2}));
}

TEST(Retention, KeepsMarkedCheckpoints) {
  auto whole = candidates({1, 1, 1});
  whole[0].is_kept = true;
  EXPECT_EQ(to_remove(whole, options(1)), (Numbers{2}));
}

TEST(Retention, MarksTheFirstCheckpointAfterEachInterval) {
  const KeepEvery every{.steps = 100, .time = std::nullopt};
  KeptMark mark;
  std::vector<std::int64_t> kept;
  for (std::int64_t step = 0; step <= 400; step += 30) {
    mark = next_mark(mark, step, milliseconds(0), every);
    if (mark.is_kept) kept.push_back(step);
  }
  EXPECT_EQ(kept, (Numbers{120, 240, 360}));
}

TEST(Retention, CountsFromWhereTrainingRestarted) {
  const KeepEvery every{.steps = 100, .time = std::nullopt};
  KeptMark mark{.is_kept = true, .last_step = 1000, .last_time = {}};
  mark = next_mark(mark, 50, milliseconds(0), every);
  EXPECT_FALSE(mark.is_kept);
  EXPECT_TRUE(next_mark(mark, 150, milliseconds(0), every).is_kept);
}

TEST(Retention, MarksTheFirstCheckpointAfterEachPeriod) {
  const KeepEvery every{.steps = std::nullopt, .time = std::chrono::hours(1)};
  const milliseconds begin(5'000'000);
  KeptMark mark{.is_kept = false, .last_step = 0, .last_time = begin};
  mark = next_mark(mark, 1, begin + std::chrono::minutes(59), every);
  EXPECT_FALSE(mark.is_kept);
  mark = next_mark(mark, 2, begin + std::chrono::minutes(61), every);
  EXPECT_TRUE(mark.is_kept);
  mark = next_mark(mark, 3, begin + std::chrono::minutes(70), every);
  EXPECT_FALSE(mark.is_kept);
}

TEST(Retention, RefusesInvalidOptions) {
  const auto code = [](const SaverOptions& refused) {
    return testing::caught([&] { validate(refused); }).code;
  };
  EXPECT_EQ(code({}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.directory = "/d", .shards = 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.directory = "/d", .keep_every = {.steps = 0, .time = std::nullopt}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({.directory = "/d", .best_of = BestOf{}}), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::checkpoint
