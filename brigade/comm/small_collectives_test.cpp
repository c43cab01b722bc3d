#include "brigade/comm/small_collectives.h"

#include <gtest/gtest.h>

#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

TEST(SmallCollectives, NumbersOfAllRanksAreCombined) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 60;  // not exact in any floating dtype
  run_ranks_successfully(3, [](Communicator& communicator) {
    const std::int64_t mine = kLarge + communicator.rank();
    EXPECT_EQ(all_reduce_number(communicator, mine, ReduceOp::kSum), 3 * kLarge + 3);
    EXPECT_EQ(all_reduce_number(communicator, mine, ReduceOp::kMax), kLarge + 2);
    EXPECT_EQ(all_reduce_number(communicator, -mine, ReduceOp::kMin), -kLarge - 2);
  });
}

TEST(SmallCollectives, AFlagOfOneRankIsOneOfAll) {
  run_ranks_successfully(3, [](Communicator& communicator) {
    const std::vector<bool> mine = {communicator.rank() == 2, false, communicator.rank() != 1};
    EXPECT_EQ(all_reduce_flags(communicator, mine), std::vector<bool>({true, false, true}));
    EXPECT_EQ(all_reduce_flags(communicator, {}), std::vector<bool>{});
  });
}

TEST(SmallCollectives, TextsOfAnyLengthAreGatheredByRank) {
  const std::vector<std::string> texts = {"", std::string(1, '\0'), "\xC3\xA4nderung", "worker 3"};
  run_ranks_successfully(4, [&](Communicator& communicator) {
    const auto mine = texts[static_cast<std::size_t>(communicator.rank())];
    EXPECT_EQ(all_gather_texts(communicator, mine), texts);
  });
}

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
