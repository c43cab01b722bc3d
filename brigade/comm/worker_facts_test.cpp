#include "brigade/comm/worker_facts.h"

#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

const Facts kFirst = {{"optimizer", "adam"}, {"learning_rate", "0.1"}, {"steps", ""}};

FactDifference difference(const Facts& theirs) {
  const std::vector<Facts> by_rank = {kFirst, kFirst, theirs};
  const auto found = find_difference(by_rank);
  return found.value_or(FactDifference{});
}

TEST(WorkerFacts, SurviveTheConversionToText) {
  EXPECT_EQ(facts_in(to_text(kFirst)), kFirst);
  EXPECT_EQ(facts_in(to_text({})), Facts{});
}

TEST(WorkerFacts, EqualOnesHaveNoDifference) {
  const std::vector<Facts> by_rank = {kFirst, kFirst};
  EXPECT_FALSE(find_difference(by_rank).has_value());
  EXPECT_FALSE(find_difference(std::span<const Facts>{}).has_value());
}

TEST(WorkerFacts, TheFirstDifferenceIsNamedWithBothValues) {
  const FactDifference found =
      difference({{"optimizer", "adam"}, {"learning_rate", "0.2"}, {"steps", "7"}});
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.name, "learning_rate");
  EXPECT_EQ(found.value, "0.2");
  EXPECT_EQ(found.first_value, "0.1");
}

TEST(WorkerFacts, AFactThatOneWorkerLacksIsNamed) {
  const FactDifference lacking = difference({{"optimizer", "adam"}, {"learning_rate", "0.1"}});
  EXPECT_EQ(lacking.name, "steps");
  EXPECT_EQ(lacking.value, std::nullopt);
  EXPECT_EQ(lacking.first_value, "");
  Facts longer = kFirst;
  longer.push_back({"clip", "1"});
  EXPECT_EQ(difference(longer).name, "clip");
  EXPECT_EQ(difference(longer).first_value, std::nullopt);
}

}  // namespace
}  // namespace brigade::comm
