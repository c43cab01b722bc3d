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

TEST(SmallCollectives, TextsOfAnyLengthAreGatheredByRank) {
  const std::vector<std::string> texts = {"", std::string(1, '\0'), "\xC3\xA4nderung", "worker 3"};
  run_ranks_successfully(4, [&](Communicator& communicator) {
    const auto mine = texts[static_cast<std::size_t>(communicator.rank())];
    EXPECT_EQ(all_gather_texts(communicator, mine), texts);
  });
}

}  // namespace
}  // namespace brigade::comm
