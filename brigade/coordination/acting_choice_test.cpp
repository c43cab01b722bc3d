#include "brigade/coordination/acting_choice.h"

#include <gtest/gtest.h>

#include <array>

namespace brigade::coordination {
namespace {

using Answer = std::optional<PairStatus>;
using Kind = ActingChoice::Kind;

Answer says(PairRole role, std::int64_t epoch) {
  return PairStatus{.life = "", .role = role, .epoch = epoch};
}
ActingChoice::Choice choice(ActingChoice& client, const Answer& first, const Answer& second) {
  return client.choose(std::array{first, second});
}
ActingChoice::Choice vote(std::size_t server, std::int64_t epoch) {
  return {.kind = Kind::kVote, .server = server, .epoch = epoch};
}
ActingChoice::Choice use(std::size_t server, std::int64_t epoch) {
  return {.kind = Kind::kUse, .server = server, .epoch = epoch};
}
const ActingChoice::Choice kNeither = {};

TEST(ActingChoice, BeginsAJobByAVote) {
  ActingChoice client;
  EXPECT_EQ(choice(client, says(PairRole::kLooking, 0), std::nullopt), kNeither);
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 0), says(PairRole::kLooking, 0)), vote(0, 1));
  EXPECT_EQ(choice(client, says(PairRole::kActing, 1), says(PairRole::kFollowing, 0)), use(0, 1));
}

TEST(ActingChoice, UsesTheOneThatActsInTheLatestEpoch) {
  ActingChoice client;
  EXPECT_EQ(choice(client, says(PairRole::kActing, 3), says(PairRole::kActing, 4)), use(1, 4));
  EXPECT_EQ(choice(client, says(PairRole::kActing, 3), std::nullopt), kNeither)
      << "it was replaced and does not know it";
  EXPECT_EQ(choice(client, says(PairRole::kActing, 4), says(PairRole::kFollowing, 4)), use(0, 4));
}

TEST(ActingChoice, VotesForACompleteFollowerOfTheOneThatIsLost) {
  ActingChoice client;
  EXPECT_EQ(choice(client, says(PairRole::kActing, 2), says(PairRole::kFollowing, 2)), use(0, 2));
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kFollowing, 2)), kNeither) << "not yet";
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kCandidate, 2)), vote(1, 3));
}

TEST(ActingChoice, GivesAnEpochToOneProcess) {
  ActingChoice client;
  choice(client, says(PairRole::kActing, 2), says(PairRole::kFollowing, 2));
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kCandidate, 2)), vote(1, 3));
  // The answer to its vote was lost.
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 2), std::nullopt), kNeither)
      << "the other one may act";
  EXPECT_EQ(choice(client, says(PairRole::kActing, 2), std::nullopt), use(0, 2))
      << "if it was replaced, it acknowledges nothing";
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 2), says(PairRole::kCandidate, 2)),
            vote(1, 3));
  EXPECT_EQ(choice(client, says(PairRole::kLooking, 2), says(PairRole::kActing, 3)), use(1, 3));
}

TEST(ActingChoice, DoesNotVoteForOneThatLacksUpdates) {
  ActingChoice client;
  choice(client, says(PairRole::kActing, 5), std::nullopt);
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kCandidate, 4)), kNeither);
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 0), std::nullopt), kNeither) << "lost disk";
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 5), says(PairRole::kLooking, 4)), vote(0, 6));
}

TEST(ActingChoice, APromiseThatNobodyCanHaveUsedHoldsUpNobody) {
  ActingChoice client;
  choice(client, says(PairRole::kActing, 2), says(PairRole::kFollowing, 2));
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 2), std::nullopt), vote(0, 3));
  // That one was restarted before it had the vote: its folder says 2.
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kCandidate, 2)), kNeither);
  EXPECT_EQ(choice(client, says(PairRole::kLooking, 2), says(PairRole::kCandidate, 2)), vote(1, 4));
}

TEST(ActingChoice, AVoteThatDoesNotCountPromisesNothing) {
  ActingChoice client;
  choice(client, says(PairRole::kActing, 2), says(PairRole::kFollowing, 2));
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 2), std::nullopt), vote(0, 3));
  client.withdraw();
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kCandidate, 2)), vote(1, 3));
  EXPECT_EQ(choice(client, std::nullopt, says(PairRole::kActing, 3)), use(1, 3));
}

TEST(ActingChoice, DoesNotVoteForOneThatLacksWhatTheOtherOneHas) {
  ActingChoice client;
  EXPECT_EQ(choice(client, says(PairRole::kLooking, 3), says(PairRole::kCandidate, 2)), kNeither)
      << "they have not heard one another yet";
  EXPECT_EQ(choice(client, says(PairRole::kCandidate, 3), says(PairRole::kLooking, 2)), vote(0, 4));
}

TEST(ActingChoice, WhereAllWereStartedAgainItWaitsForBothProcesses) {
  const auto restored = [](PairRole role, std::int64_t epoch) {
    return PairStatus{.life = "", .role = role, .epoch = epoch, .is_restored = true};
  };
  ActingChoice client;
  EXPECT_EQ(choice(client, std::nullopt, restored(PairRole::kCandidate, 2)), kNeither)
      << "the other one may have gone on without it";
  EXPECT_EQ(choice(client, restored(PairRole::kLooking, 2), restored(PairRole::kCandidate, 2)),
            vote(1, 3));
  ActingChoice other;
  EXPECT_EQ(choice(other, std::nullopt, says(PairRole::kCandidate, 2)), vote(1, 3))
      << "it has followed until the other one was lost";
  ActingChoice knows;
  choice(knows, says(PairRole::kActing, 2), std::nullopt);
  EXPECT_EQ(choice(knows, std::nullopt, restored(PairRole::kCandidate, 2)), vote(1, 3));
}

TEST(ActingChoice, WhatBothHaveLostIsNotReplacedByLess) {
  ActingChoice client;
  choice(client, says(PairRole::kActing, 5), std::nullopt);
  EXPECT_EQ(choice(client, says(PairRole::kLooking, 0), says(PairRole::kCandidate, 3)), kNeither);
}

}  // namespace
}  // namespace brigade::coordination
