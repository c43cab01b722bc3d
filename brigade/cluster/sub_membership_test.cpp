#include "brigade/cluster/sub_membership.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/cluster/testing/in_memory_membership.h"

namespace brigade::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SubMembership, RenumbersItsMembersAndKeepsItsKeysApart) {
  const auto all = testing::make_in_memory_memberships(3);
  SubMembership one(all[2], {2, 0}, "pair");
  SubMembership other(all[0], {2, 0}, "pair");
  EXPECT_EQ(one.self().rank, 0);
  EXPECT_EQ(other.self().rank, 1);
  ASSERT_EQ(one.members().size(), 2U);
  EXPECT_EQ(one.members()[0].task, all[2]->self().task);
  one.set("key", "of the pair");
  all[0]->set("key", "of all");
  EXPECT_EQ(other.get("key", seconds(5)), "of the pair");
  EXPECT_EQ(other.add("number", 2), 2);
  EXPECT_EQ(all[1]->add("number", 0), 0);
}

TEST(SubMembership, SeesTheLossOfAnyMember) {
  const auto all = testing::make_in_memory_memberships(3);
  SubMembership pair(all[0], {0, 1}, "pair");
  EXPECT_FALSE(pair.lost());
  testing::lose(*all[0], 2, "it was killed");
  ASSERT_TRUE(pair.lost());
  EXPECT_EQ(pair.lost()->member.rank, 2);
  EXPECT_TRUE(pair.lost_token().is_cancelled());
}

TEST(SubMembership, ClosesForThisProcessAlone) {
  const auto all = testing::make_in_memory_memberships(2);
  SubMembership mine(all[0], {0, 1}, "pair");
  SubMembership theirs(all[1], {0, 1}, "pair");
  mine.close("its strategy ended");
  EXPECT_TRUE(mine.lost_token().is_cancelled());
  ASSERT_TRUE(mine.lost());
  EXPECT_EQ(mine.lost()->reason, "its strategy ended");
  EXPECT_FALSE(theirs.lost());
  EXPECT_FALSE(all[0]->lost_token().is_cancelled());
}

TEST(SubMembership, AProcessOutsideOfItIsRefused) {
  const auto all = testing::make_in_memory_memberships(3);
  EXPECT_THROW(SubMembership(all[0], {1, 2}, "pair"), Error);
  EXPECT_THROW(SubMembership(all[0], {0, 3}, "pair"), Error);
}

}  // namespace
}  // namespace brigade::cluster
