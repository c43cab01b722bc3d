#include "brigade/cluster/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::lose;
using testing::make_in_memory_memberships;
using ::testing::MatchesRegex;
using testing::refusal;
using ::testing::StartsWith;

constexpr auto kPlenty = std::chrono::seconds(20);

TEST(Membership, NamesALostMemberAndWhatIsGivenUp) {
  auto members = make_in_memory_memberships(2, {"a", "b"});
  EXPECT_EQ(refusal([&] { throw_if_lost(*members[0], "all_reduce"); }), "nothing");
  lose(*members[0], 1, "its connection was closed");
  EXPECT_THAT(refusal([&] { throw_if_lost(*members[0], "all_reduce"); }),
              MatchesRegex("UNAVAILABLE: /job:worker/task:1 \\(rank 1, pid [0-9]+ on host b\\) was "
                           "lost: its connection was closed; all_reduce is given up."));
}

TEST(Membership, HostsAreDistinguishedByTheirIdentity) {
  const auto together = make_in_memory_memberships(2);
  EXPECT_EQ(first_without_shared_memory(*together[1]), nullptr);
  EXPECT_EQ(first_on_another_network(*together[1]), nullptr);
  const auto apart = make_in_memory_memberships(3, {"a", "a", "b"});
  for (const auto& membership : apart)
    EXPECT_EQ(first_without_shared_memory(*membership)->rank, 2) << "the same for all";
  EXPECT_EQ(first_on_another_network(*apart[0])->rank, 2);
  EXPECT_EQ(first_on_another_network(*apart[2])->rank, 0);
}

TEST(Membership, NamesALauncherAsWhatItIs) {
  const LostMember lost{{-1, {"launcher", 0}, "a", 7}, "its connection was closed"};
  EXPECT_EQ(to_string(lost.member), "the launcher (pid 7 on host a)");
  EXPECT_EQ(to_string(lost), "The launcher (pid 7 on host a) was lost: its connection was closed");
}

TEST(InMemoryMembership, KnowsItsMembers) {
  auto members = make_in_memory_memberships(3, {"a", "a", "b"});
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[2]->self().rank, 2);
  EXPECT_EQ(members[2]->self().host, "b");
  EXPECT_EQ(members[0]->members(), members[2]->members());
  EXPECT_EQ(members[1]->generation(), 0);
}

TEST(InMemoryMembership, GetWaitsForSet) {
  auto members = make_in_memory_memberships(2);
  std::string got;
  std::thread reader([&] { got = members[1]->get("port", kPlenty); });
  members[0]->set("port", "4711");
  reader.join();
  EXPECT_EQ(got, "4711");
  members[1]->set("port", "1");
  EXPECT_EQ(members[0]->get("port", milliseconds(0)), "1");
}

TEST(InMemoryMembership, GetGivesUpAtItsDeadline) {
  auto members = make_in_memory_memberships(1);
  EXPECT_EQ(refusal([&] { members[0]->get("port", milliseconds(5)); }),
            "DEADLINE_EXCEEDED: No member has set the key 'port' within 5 ms.");
}

TEST(InMemoryMembership, AddsFromAllThreads) {
  auto members = make_in_memory_memberships(4);
  std::vector<std::thread> threads;
  for (auto& member : members) {
    threads.emplace_back([&member] {
      for (int i = 0; i < 100; ++i) member->add("count", 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(members[0]->add("count", 0), 800);
  members[0]->set("name", "x");
  EXPECT_THAT(refusal([&] { members[0]->add("name", 1); }), HasSubstr("is not a number"));
}

TEST(InMemoryMembership, BarrierBlocksUntilTheLastArrives) {
  auto members = make_in_memory_memberships(3);
  std::atomic<int> arrived{0};
  std::atomic<bool> was_early{false};
  std::vector<std::thread> threads;
  for (auto& member : members) {
    threads.emplace_back([&] {
      ++arrived;
      member->barrier("start", kPlenty);
      if (arrived != 3) was_early = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(was_early);
}

TEST(InMemoryMembership, BarrierNamesTheMissingMembers) {
  auto members = make_in_memory_memberships(3);
  EXPECT_THAT(
      refusal([&] { members[0]->barrier("start", milliseconds(5)); }),
      MatchesRegex("DEADLINE_EXCEEDED: Not all members reached the barrier 'start' within 5 ms; "
                   "missing: /job:worker/task:1 .*, /job:worker/task:2 .*\\."));
  EXPECT_THAT(refusal([&] { members[0]->barrier("start", milliseconds(5)); }),
              HasSubstr("a second time"));
}

TEST(InMemoryMembership, ALossReleasesAllWaits) {
  auto members = make_in_memory_memberships(3);
  std::string from_get;
  std::string from_barrier;
  std::atomic<int> cancelled{0};
  const auto registration = members[0]->lost_token().on_cancel([&] {
    if (members[0]->lost()) ++cancelled;  // a callback may ask
  });
  std::thread getter([&] { from_get = refusal([&] { members[0]->get("never", kPlenty); }); });
  std::thread waiter([&] { from_barrier = refusal([&] { members[1]->barrier("b", kPlenty); }); });
  lose(*members[0], 2, "killed");
  getter.join();
  waiter.join();
  EXPECT_THAT(from_get, StartsWith("UNAVAILABLE: /job:worker/task:2 (rank 2"));
  EXPECT_THAT(from_get, HasSubstr("was lost: killed; the wait for the key 'never' is given up."));
  EXPECT_THAT(from_barrier, HasSubstr("was lost: killed; the barrier 'b' is given up."));
  EXPECT_EQ(cancelled, 1);
  EXPECT_TRUE(members[2]->lost_token().is_cancelled());
}

TEST(InMemoryMembership, OnlyTheFirstLossIsReported) {
  auto members = make_in_memory_memberships(3);
  lose(*members[0], 1, "first");
  lose(*members[0], 2, "second");
  EXPECT_EQ(members[0]->lost()->member.rank, 1);
  EXPECT_EQ(members[2]->lost()->reason, "first");
  EXPECT_THAT(refusal([&] { lose(*members[0], 3, "x"); }), HasSubstr("There is no rank 3"));
}

TEST(InMemoryMembership, LeavingIsNoLoss) {
  auto members = make_in_memory_memberships(2);
  members[1].reset();
  EXPECT_FALSE(members[0]->lost().has_value());
  lose(*members[0], 1, "too late");
  EXPECT_FALSE(members[0]->lost().has_value());
  EXPECT_THAT(refusal([&] { members[0]->barrier("end", kPlenty); }),
              HasSubstr("has left before the barrier 'end'"));
}

}  // namespace
}  // namespace brigade::cluster
