#include "brigade/coordination/push_ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

PushId push(int worker, std::int64_t number, std::int64_t incarnation = 0) {
  return {.worker = worker, .incarnation = incarnation, .number = number};
}

TEST(PushLedger, AppliesAWorkersPushesInOrderAndOnce) {
  PushLedger ledger;
  EXPECT_EQ(ledger.judge(push(3, 1)), PushVerdict::kApply);
  EXPECT_EQ(ledger.judge(push(3, 2)), PushVerdict::kGap);
  ledger.record(push(3, 1));
  EXPECT_EQ(ledger.judge(push(3, 1)), PushVerdict::kDuplicate);
  EXPECT_EQ(ledger.judge(push(3, 2)), PushVerdict::kApply);
  EXPECT_EQ(ledger.judge(push(4, 1)), PushVerdict::kApply) << "another worker counts on its own";
  EXPECT_EQ(ledger.last_applied(3), 1);
  EXPECT_EQ(ledger.last_applied(4), 0);
}

TEST(PushLedger, ASuccessorCountsFromOneAndFencesItsPredecessor) {
  PushLedger ledger;
  ledger.record(push(0, 1));
  ledger.record(push(0, 2));
  EXPECT_EQ(ledger.judge(push(0, 3, 1)), PushVerdict::kGap);
  ledger.record(push(0, 1, 1));
  EXPECT_EQ(ledger.judge(push(0, 3, 0)), PushVerdict::kFenced);
  EXPECT_EQ(ledger.judge(push(0, 1, 0)), PushVerdict::kFenced)
      << "also a push that was applied: whoever sends it must end";
}

TEST(PushLedger, AdmittingASuccessorFencesBeforeItsFirstPush) {
  PushLedger ledger;
  ledger.record(push(0, 1));
  ledger.admit(0, 5);
  EXPECT_EQ(ledger.judge(push(0, 2)), PushVerdict::kFenced);
  EXPECT_EQ(ledger.judge(push(0, 1, 5)), PushVerdict::kApply);
  ledger.record(push(0, 1, 5));
  ledger.admit(0, 5);
  ledger.admit(0, 2);
  EXPECT_EQ(ledger.judge(push(0, 1, 5)), PushVerdict::kDuplicate) << "admitting again keeps counts";
}

TEST(PushLedger, RejectsWhatIsNoPush) {
  const PushLedger ledger;
  for (const PushId bad : {push(-1, 1), push(0, 0), push(0, 1, -1)})
    EXPECT_THROW(ledger.judge(bad), Error);
  PushLedger recording;
  EXPECT_THROW(recording.admit(-1, 0), Error);
  EXPECT_THROW(recording.admit(0, -1), Error);
  EXPECT_THROW(recording.record(push(0, 2)), Error);
  recording.record(push(0, 1));
  EXPECT_THROW(recording.record(push(0, 1)), Error);
}

TEST(PushLedger, SavedAndRestoredJudgesAsBefore) {
  PushLedger ledger;
  ledger.record(push(0, 1));
  ledger.record(push(11, 1, 4));
  ledger.record(push(11, 2, 4));
  PushLedger restored;
  restored.restore(ledger.save());
  for (const PushId each : {push(0, 1), push(0, 2), push(11, 2, 4), push(11, 3, 4), push(11, 9, 3)})
    EXPECT_EQ(restored.judge(each), ledger.judge(each));
  EXPECT_EQ(restored.save(), ledger.save());
}

TEST(PushLedger, ABadStateIsRejectedAndChangesNothing) {
  PushLedger ledger;
  ledger.record(push(2, 1));
  for (const char* key : {"two", "-1", "1x", ""}) {
    io::StateTree state = ledger.save();
    state[key]["incarnation"] = 0;
    state[key]["number"] = 1;
    EXPECT_THROW(ledger.restore(state), Error) << key;
  }
  io::StateTree negative = ledger.save();
  negative["3"]["incarnation"] = 0;
  negative["3"]["number"] = -1;
  EXPECT_THROW(ledger.restore(negative), Error);
  EXPECT_EQ(ledger.last_applied(2), 1);
}

TEST(PushLedger, KnowsEachWorkersLatestIncarnation) {
  PushLedger ledger;
  EXPECT_EQ(ledger.incarnation(1), 0);
  ledger.record(push(1, 1, 2));
  EXPECT_EQ(ledger.incarnation(1), 2);
  ledger.admit(1, 4);
  ledger.admit(1, 3);
  EXPECT_EQ(ledger.incarnation(1), 4);
  EXPECT_EQ(ledger.incarnation(0), 0);
}

/// Messages are lost, repeated and late, workers restart at any moment: what is applied is still
/// each incarnation's pushes from 1 without a gap.
TEST(PushLedger, NoOrderOfMessagesAppliesAPushTwiceOrOutOfOrder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    PushLedger ledger;
    std::vector<PushId> sent;
    std::map<int, PushId> next;
    std::map<std::pair<int, std::int64_t>, std::int64_t> applied;
    for (int i = 0; i < 300; ++i) {
      const int worker = static_cast<int>(random() % 3);
      PushId& own = next.try_emplace(worker, push(worker, 1)).first->second;
      if (random() % 40 == 0) own = push(worker, 1, own.incarnation + 1);
      sent.push_back(own);
      if (random() % 4 != 0) ++own.number;  // otherwise it is sent again
      const PushId arriving = random() % 3 == 0 ? sent[random() % sent.size()] : sent.back();
      if (ledger.judge(arriving) != PushVerdict::kApply) continue;
      ledger.record(arriving);
      std::int64_t& last = applied[{arriving.worker, arriving.incarnation}];
      ASSERT_EQ(arriving.number, last + 1) << "seed " << seed;
      last = arriving.number;
    }
    ASSERT_FALSE(applied.empty());
  }
}

}  // namespace
}  // namespace brigade::coordination
