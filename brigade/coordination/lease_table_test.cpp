#include "brigade/coordination/lease_table.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::coordination {
namespace {

using std::chrono::milliseconds;

LeaseTable::Time at(int ms) {
  return LeaseTable::Time() + milliseconds(ms);
}

TEST(LeaseTable, ALeaseLastsAsLongAsItIsRenewedInTime) {
  LeaseTable leases(milliseconds(100));
  const Incarnation worker = leases.grant("worker:1", at(0));
  EXPECT_EQ(worker, (Incarnation{"worker:1", 1}));
  EXPECT_TRUE(leases.renew(worker, at(90)));
  EXPECT_TRUE(leases.expire(at(189)).empty());
  EXPECT_EQ(leases.next_expiry(), at(190));
  EXPECT_EQ(leases.expire(at(190)), std::vector{worker});
  EXPECT_TRUE(leases.expire(at(500)).empty()) << "a loss is reported once";
  EXPECT_EQ(leases.next_expiry(), std::nullopt);
}

TEST(LeaseTable, WhoIsLateMustAskAnewEvenBeforeItsLossIsReported) {
  LeaseTable leases(milliseconds(100));
  const Incarnation worker = leases.grant("worker:1", at(0));
  EXPECT_FALSE(leases.renew(worker, at(100)));
  EXPECT_EQ(leases.expire(at(100)), std::vector{worker}) << "and its loss is still reported";
  EXPECT_FALSE(leases.renew(worker, at(101)));
  EXPECT_EQ(leases.grant("worker:1", at(102)).number, 2);
}

TEST(LeaseTable, ASuccessorFencesTheLifeBefore) {
  LeaseTable leases(milliseconds(100));
  const Incarnation before = leases.grant("ps:0", at(0));
  const Incarnation after = leases.grant("ps:0", at(10));
  EXPECT_FALSE(leases.is_held(before));
  EXPECT_FALSE(leases.renew(before, at(20)));
  leases.release(before);
  EXPECT_TRUE(leases.is_held(after)) << "the old life cannot end the new one's lease";
  EXPECT_TRUE(leases.renew(after, at(20)));
  EXPECT_FALSE(leases.is_held({"ps:0", 3}));
}

TEST(LeaseTable, ReleasedIsNotLost) {
  LeaseTable leases(milliseconds(100));
  const Incarnation chief = leases.grant("chief:0", at(0));
  const Incarnation worker = leases.grant("worker:0", at(0));
  leases.release(chief);
  EXPECT_EQ(leases.holders(), std::vector{worker});
  EXPECT_EQ(leases.expire(at(1000)), std::vector{worker});
}

TEST(LeaseTable, NoIncarnationIsGivenTwiceOverARestart) {
  LeaseTable leases(milliseconds(100));
  leases.grant("worker:0", at(0));
  const Incarnation last = leases.grant("worker:0", at(1));
  LeaseTable restarted(milliseconds(100));
  restarted.restore(leases.save());
  EXPECT_FALSE(restarted.is_held(last)) << "all ask again";
  EXPECT_EQ(restarted.grant("worker:0", at(2)).number, 3);
  io::StateTree bad = leases.save();
  bad["worker:1"] = 0;
  EXPECT_THROW(restarted.restore(bad), Error);
  EXPECT_EQ(restarted.grant("worker:0", at(2)).number, 4);
}

TEST(LeaseTable, ALifeThatContinuesReclaimsItsIncarnation) {
  LeaseTable restarted(milliseconds(100));
  const Incarnation worker{"worker:0", 3};
  EXPECT_TRUE(restarted.reclaim(worker, at(0))) << "another table gave it";
  EXPECT_TRUE(restarted.is_held(worker));
  EXPECT_EQ(restarted.next_expiry(), at(100));
  EXPECT_EQ(restarted.expire(at(100)), std::vector{worker});
  EXPECT_TRUE(restarted.reclaim(worker, at(150))) << "late, but nobody has replaced it";
  EXPECT_TRUE(restarted.renew(worker, at(200)));
  EXPECT_EQ(restarted.grant("worker:0", at(210)).number, 4);
}

TEST(LeaseTable, WhoWasReplacedReclaimsNothing) {
  LeaseTable leases(milliseconds(100));
  const Incarnation before = leases.grant("worker:0", at(0));
  EXPECT_TRUE(leases.reclaim({"worker:0", 5}, at(10))) << "a later one, which another table gave";
  EXPECT_FALSE(leases.is_held(before));
  EXPECT_FALSE(leases.reclaim(before, at(20)));
  EXPECT_EQ(leases.next_expiry(), at(110)) << "the refusal changed nothing";
  leases.release({"worker:0", 5});
  EXPECT_FALSE(leases.reclaim({"worker:0", 4}, at(30))) << "its successor has finished";
  EXPECT_THROW(leases.reclaim({"worker:0", 0}, at(30)), Error);
  EXPECT_THROW(leases.reclaim({"worker:1", -1}, at(30)), Error);
  EXPECT_EQ(leases.grant("worker:1", at(40)).number, 1);
}

TEST(LeaseTable, RejectsATermThatIsNotPositive) {
  EXPECT_THROW(LeaseTable(milliseconds(0)), Error);
}

}  // namespace
}  // namespace brigade::coordination
