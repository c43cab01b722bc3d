#include "brigade/concurrency/stage_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "brigade/base/error.h"

namespace brigade::concurrency {
namespace {

using Starts = std::vector<std::size_t>;

TEST(PartitionByCost, TheSlowestStageIsAsFastAsPossible) {
  EXPECT_EQ(partition_by_cost({1, 1, 1, 1}, 2), Starts({0, 2}));
  EXPECT_EQ(partition_by_cost({5, 1, 1, 1}, 2), Starts({0, 1}));
  EXPECT_EQ(partition_by_cost({1, 2, 3, 4, 5}, 3), Starts({0, 3, 4}));
  EXPECT_EQ(partition_by_cost({1, 2, 3}, 1), Starts({0}));
  EXPECT_EQ(partition_by_cost({1, 2, 3}, 3), Starts({0, 1, 2}));
  EXPECT_EQ(partition_by_cost({0, 0, 9, 0}, 3), Starts({0, 2, 3}));
}

TEST(PartitionByCost, EqualsTheBestOfAllDivisions) {
  const std::vector<double> costs = {0.7, 3.1, 0.2, 2.2, 1.9, 0.1, 4.0, 0.3};
  const auto slowest = [&](const Starts& begins) {
    double most = 0.0;
    for (std::size_t s = 0; s < begins.size(); ++s) {
      const std::size_t end = s + 1 < begins.size() ? begins[s + 1] : costs.size();
      double sum = 0.0;
      for (std::size_t layer = begins[s]; layer < end; ++layer) sum += costs[layer];
      most = std::max(most, sum);
    }
    return most;
  };
  for (int stages = 1; stages <= static_cast<int>(costs.size()); ++stages) {
    // Each set of layers other than the first is a division.
    double best = std::numeric_limits<double>::infinity();
    for (unsigned set = 0; set < 1U << (costs.size() - 1); ++set) {
      Starts begins = {0};
      for (std::size_t layer = 1; layer < costs.size(); ++layer) {
        if ((set >> (layer - 1)) % 2 == 1) begins.push_back(layer);
      }
      if (begins.size() == static_cast<std::size_t>(stages)) best = std::min(best, slowest(begins));
    }
    const Starts found = partition_by_cost(costs, stages);
    EXPECT_EQ(found.size(), static_cast<std::size_t>(stages));
    EXPECT_EQ(found.front(), 0U);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    EXPECT_DOUBLE_EQ(slowest(found), best) << stages;
  }
}

TEST(PartitionByCostOfStages, SumsGiveStagesAsCheapAsTheOthers) {
  const std::vector<double> costs = {0.7, 3.1, 0.2, 2.2, 1.9, 0.1, 4.0, 0.3};
  const auto sum = [&](int, std::size_t begin, std::size_t end) {
    double total = 0.0;
    for (; begin < end; ++begin) total += costs[begin];
    return total;
  };
  const auto slowest = [&](const Starts& begins) {
    double most = 0.0;
    for (std::size_t s = 0; s < begins.size(); ++s)
      most = std::max(most, sum(0, begins[s], s + 1 < begins.size() ? begins[s + 1] : 8));
    return most;
  };
  for (int stages = 1; stages <= 8; ++stages) {
    const Starts found = partition_by_cost(costs.size(), stages, sum);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(stages));
    EXPECT_EQ(found.front(), 0U);
    EXPECT_TRUE(std::adjacent_find(found.begin(), found.end(), std::greater_equal<>()) ==
                found.end());
    EXPECT_DOUBLE_EQ(slowest(found), slowest(partition_by_cost(costs, stages))) << stages;
  }
}

TEST(PartitionByCostOfStages, WhatMustNotBeAStageIsNone) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // At most two layers in the first stage, and three in the others.
  const auto limited = [&](int stage, std::size_t begin, std::size_t end) {
    return end - begin > (stage == 0 ? 2U : 3U) ? kNever : static_cast<double>(end - begin);
  };
  EXPECT_EQ(partition_by_cost(5, 2, limited), Starts({0, 2}));
  EXPECT_EQ(partition_by_cost(7, 3, limited), Starts({0, 2, 5}));  // as {0, 2, 4}
  EXPECT_EQ(partition_by_cost(8, 3, limited), Starts({0, 2, 5}));
  // None fits: the result is a division all the same.
  const Starts none = partition_by_cost(9, 3, limited);
  EXPECT_EQ(none.size(), 3U);
  EXPECT_EQ(partition_by_cost(3, 3, [](int, std::size_t, std::size_t) { return kNever; }),
            Starts({0, 1, 2}));
  EXPECT_THROW(partition_by_cost(2, 3, limited), Error);
}

TEST(PartitionByCost, RefusesWhatCannotBe) {
  EXPECT_THROW(partition_by_cost({1, 2}, 3), Error);
  EXPECT_THROW(partition_by_cost({1, 2}, 0), Error);
  EXPECT_THROW(partition_by_cost({}, 1), Error);
  EXPECT_THROW(partition_by_cost({1, -2}, 1), Error);
  EXPECT_THROW(partition_by_cost({std::numeric_limits<double>::quiet_NaN()}, 1), Error);
}

}  // namespace
}  // namespace brigade::concurrency
