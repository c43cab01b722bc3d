#include "brigade/coordination/server_pair.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::coordination {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTerm{100};

/// Both processes of a server, which receive each other's status unless a test says otherwise.
class ServerPairTest : public ::testing::Test {
 protected:
  ServerPair started(bool is_first, std::optional<std::int64_t> epoch) {
    return ServerPair({.life = std::to_string(++lives_), .is_first = is_first, .term = kTerm},
                      epoch, now_);
  }
  void talk() {
    const PairStatus before = first_.status();
    first_.receive(second_.status(), now_);
    second_.receive(before, now_);
  }
  void pass(milliseconds time) {
    now_ += time;
    first_.tick(now_);
    second_.tick(now_);
  }
  /// The first acts in epoch 1, with a complete follower.
  void pair_up() {
    talk();
    ASSERT_TRUE(first_.vote(1));
    talk();
    ASSERT_EQ(second_.role(), PairRole::kFollowing);
    second_.begin_to_fill();
    first_.set_paired(true, now_);
    second_.complete(1);
  }

  ServerPair::Time now_{};
  int lives_ = 0;
  ServerPair first_ = started(true, std::nullopt);
  ServerPair second_ = started(false, std::nullopt);
};

TEST_F(ServerPairTest, TheFirstBeginsAJob) {
  EXPECT_FALSE(first_.vote(1)) << "it has not heard the other one, which may have more";
  talk();
  EXPECT_EQ(first_.role(), PairRole::kCandidate);
  EXPECT_EQ(second_.role(), PairRole::kLooking);
  pass(10 * kTerm);
  EXPECT_EQ(second_.role(), PairRole::kLooking) << "it has nothing";
  EXPECT_FALSE(first_.vote(0));
  EXPECT_TRUE(first_.vote(1));
  EXPECT_EQ(first_.status().epoch, 1);
  talk();
  EXPECT_EQ(second_.role(), PairRole::kFollowing);
}

TEST_F(ServerPairTest, TheFirstBeginsAJobWithoutTheOther) {
  pass(3 * kTerm - milliseconds(1));
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  pass(milliseconds(1));
  EXPECT_EQ(first_.role(), PairRole::kCandidate);
}

TEST_F(ServerPairTest, ACompleteFollowerReplacesTheOneThatIsSilent) {
  pair_up();
  pass(kTerm - milliseconds(1));
  EXPECT_EQ(second_.role(), PairRole::kFollowing);
  EXPECT_FALSE(second_.vote(2));
  pass(milliseconds(1));
  EXPECT_EQ(second_.role(), PairRole::kCandidate);
  ASSERT_TRUE(second_.vote(2));
  EXPECT_EQ(first_.role(), PairRole::kActing) << "it was stopped, and knows nothing";
  talk();
  EXPECT_NE(first_.role(), PairRole::kActing);
  talk();
  EXPECT_EQ(first_.role(), PairRole::kFollowing);
  EXPECT_EQ(second_.role(), PairRole::kActing);
}

TEST_F(ServerPairTest, ASilentFollowerIsDoubtedBeforeItIsGivenUp) {
  pair_up();
  EXPECT_FALSE(first_.doubts_follower(now_ + kTerm / 2 - milliseconds(1)));
  EXPECT_TRUE(first_.doubts_follower(now_ + kTerm / 2));
  pass(kTerm / 2);
  first_.record_follower_call(now_);
  EXPECT_FALSE(first_.doubts_follower(now_));
  EXPECT_FALSE(second_.doubts_follower(now_ + 10 * kTerm));
  first_.set_paired(false, now_);
  EXPECT_FALSE(first_.doubts_follower(now_ + 10 * kTerm)) << "it waits for nobody";
}

TEST_F(ServerPairTest, AFollowerThatCatchesUpReplacesNobody) {
  talk();
  ASSERT_TRUE(first_.vote(1));
  talk();
  second_.begin_to_fill();
  pass(20 * kTerm);
  EXPECT_EQ(second_.role(), PairRole::kLooking);
  EXPECT_FALSE(second_.vote(2));
  EXPECT_EQ(first_.role(), PairRole::kActing) << "nothing waits for such a follower";
}

TEST_F(ServerPairTest, OneThatLosesItsFollowerContinuesOnlyWithAVote) {
  pair_up();
  first_.record_follower_call(now_);
  pass(2 * kTerm);
  EXPECT_EQ(first_.role(), PairRole::kCandidate);
  EXPECT_FALSE(first_.vote(1));
  ASSERT_TRUE(first_.vote(2));
  EXPECT_FALSE(first_.is_paired());
  second_.receive(first_.status(), now_);
  EXPECT_EQ(second_.role(), PairRole::kFollowing) << "it was a candidate, too";
  EXPECT_EQ(second_.status().epoch, 1) << "and lacks what the first acknowledges alone";
  pass(10 * kTerm);
  EXPECT_EQ(first_.role(), PairRole::kActing) << "alone";
}

TEST_F(ServerPairTest, AFollowerKnowsThatTheOneThatWasStartedAgainDoesNotAct) {
  pair_up();
  first_ = started(true, 1);
  talk();
  EXPECT_EQ(second_.role(), PairRole::kCandidate) << "it has everything in memory";
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  pass(2 * kTerm);
  talk();
  pass(2 * kTerm);
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  ASSERT_TRUE(second_.vote(2));
  talk();
  EXPECT_EQ(first_.role(), PairRole::kFollowing);
}

TEST_F(ServerPairTest, OneThatLostItsDiskDoesNotBegin) {
  pair_up();
  first_ = started(true, std::nullopt);
  talk();
  EXPECT_EQ(second_.role(), PairRole::kCandidate);
  EXPECT_EQ(first_.role(), PairRole::kLooking);
}

TEST_F(ServerPairTest, AfterBothWereStartedAgainTheOneWithTheLaterEpochContinues) {
  first_ = started(true, 3);
  second_ = started(false, 4);
  talk();
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  EXPECT_EQ(second_.role(), PairRole::kCandidate);
  first_ = started(true, 4);
  second_ = started(false, 4);
  talk();
  EXPECT_EQ(first_.role(), PairRole::kCandidate);
  EXPECT_EQ(second_.role(), PairRole::kLooking);
}

TEST_F(ServerPairTest, OneThatWasBeingFilledNeverActsWithThat) {
  first_ = started(true, 0);
  pass(20 * kTerm);
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  second_ = started(false, 2);
  talk();
  EXPECT_EQ(second_.role(), PairRole::kCandidate);
}

TEST_F(ServerPairTest, OneThatActsWithoutWhatTheOtherHasStepsDown) {
  first_ = started(true, 1);
  pass(3 * kTerm);
  ASSERT_TRUE(first_.vote(2));
  second_ = started(false, 5);
  talk();
  EXPECT_EQ(first_.role(), PairRole::kLooking);
  EXPECT_EQ(second_.role(), PairRole::kCandidate);
}

TEST_F(ServerPairTest, OneThatIsToBeFilledDoesNotReplaceTheOneThatWentOnAlone) {
  pair_up();
  first_.record_follower_call(now_);
  pass(2 * kTerm);
  ASSERT_TRUE(first_.vote(2));
  second_ = started(false, 1);
  talk();
  ASSERT_EQ(second_.role(), PairRole::kFollowing);
  now_ += 20 * kTerm;
  second_.tick(now_);
  EXPECT_EQ(second_.role(), PairRole::kLooking) << "it has epoch 1, and knows of epoch 2";
  now_ += 20 * kTerm;
  second_.tick(now_);
  EXPECT_EQ(second_.role(), PairRole::kLooking);
  first_ = started(true, 2);
  talk();
  talk();
  EXPECT_EQ(first_.role(), PairRole::kCandidate);
}

TEST_F(ServerPairTest, SaysWhatItHasFromItsFolderAndForWhichCandidacyItAsks) {
  EXPECT_FALSE(first_.status().is_restored) << "it has nothing";
  first_ = started(true, 3);
  EXPECT_TRUE(first_.status().is_restored);
  EXPECT_EQ(first_.status().candidacy, 0);
  pass(3 * kTerm);
  ASSERT_EQ(first_.role(), PairRole::kCandidate);
  EXPECT_TRUE(first_.status().is_restored);
  EXPECT_EQ(first_.status().candidacy, 1);
  ASSERT_TRUE(first_.vote(4));
  EXPECT_FALSE(first_.status().is_restored);
  second_ = started(false, 3);
  talk();
  ASSERT_EQ(second_.role(), PairRole::kFollowing);
  EXPECT_TRUE(second_.status().is_restored);
  second_.complete(4);
  EXPECT_FALSE(second_.status().is_restored);
  first_.set_paired(true, now_);
  pass(2 * kTerm);
  ASSERT_EQ(first_.role(), PairRole::kCandidate);
  EXPECT_EQ(first_.status().candidacy, 2);
}

TEST_F(ServerPairTest, RefusesWhatItsRoleDoesNotAllow) {
  using base::testing::code_of;
  EXPECT_EQ(code_of([&] { first_.complete(1); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { first_.begin_to_fill(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { first_.set_paired(true, now_); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { ServerPair({.term = milliseconds(0)}, 1, now_); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::coordination
