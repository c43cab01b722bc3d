#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "brigade/rpc/channel.h"
#include "brigade/rpc/join_call.h"
#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/testing/thread_cluster.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using testing::test_options;

/// A member that only sends Hello: it neither sends heartbeats nor leaves.
std::unique_ptr<JoinCall> say_hello(const RendezvousServer& server, int rank, int world_size) {
  const Hello hello{.member = {rank, {"worker", rank}, "elsewhere", 4711},
                    .world_size = world_size,
                    .start_timeout = seconds(20)};
  return std::make_unique<JoinCall>(make_channel(server.address(), std::nullopt), hello,
                                    JoinCall::Handlers{.on_event = [](const RendezvousEvent&) {},
                                                       .on_end = [](const MembershipEnd&) {},
                                                       .on_close = [](const Closure&) {}});
}

TEST(LostMember, BrokenConnectionIsImmediatelyALossForAll) {
  const auto server = make_rendezvous_server({.world_size = 3, .peer_timeout = seconds(60)});
  auto victim = say_hello(*server, 2, 3);
  const auto members = testing::join_together({testing::launched_config(server->address(), 0, 3),
                                               testing::launched_config(server->address(), 1, 3)},
                                              test_options());
  std::optional<Error> error;
  std::jthread waiter([&] {
    try {
      members[0].membership->get("key", seconds(60));
    } catch (const Error& caught) {
      error = caught;
    }
  });
  const auto start = std::chrono::steady_clock::now();
  victim.reset();
  waiter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("/job:worker/task:2 (rank 2, pid 4711 on host "
                                             "elsewhere)"),
                                   HasSubstr("its connection was closed")));
  for (const auto& member : members) {
    EXPECT_TRUE(eventually([&] { return member.membership->lost_token().is_cancelled(); }));
    EXPECT_EQ(member.membership->lost()->member.rank, 2);
    EXPECT_THROW(member.membership->barrier("end", seconds(60)), Error);
  }
}

TEST(LostMember, SilentMemberIsLostAfterThePeerTimeoutAndIsNotified) {
  std::atomic<int> num_lost{0};
  const auto server = make_rendezvous_server({.world_size = 2,
                                              .peer_timeout = milliseconds(400),
                                              .on_lost = [&](const auto&, int) { ++num_lost; }});
  std::atomic<bool> is_told{false};
  const Hello hello{.member = {1, {"worker", 1}, "elsewhere", 4711},
                    .world_size = 2,
                    .start_timeout = seconds(20)};
  const JoinCall silent(
      make_channel(server->address(), std::nullopt), hello,
      {.on_event = [](const RendezvousEvent&) {},
       .on_end = [&](const MembershipEnd& ending) { is_told = ending.error.has_value(); },
       .on_close = [](const Closure&) {}});
  const auto member = join(testing::launched_config(server->address(), 0, 2), test_options());
  EXPECT_TRUE(eventually([&] { return member->lost_token().is_cancelled(); }));
  EXPECT_EQ(member->lost()->member.rank, 1);
  EXPECT_EQ(member->lost()->reason, "it has not been heard from for 0.4 s");
  EXPECT_TRUE(eventually([&] { return is_told.load(); }));
  EXPECT_TRUE(eventually([&] { return num_lost.load() == 1; }));
}

TEST(LostMember, TokenWakesBlockedThreads) {
  const auto server = make_rendezvous_server({.world_size = 2});
  auto victim = say_hello(*server, 1, 2);
  const auto member = join(testing::launched_config(server->address(), 0, 2), test_options());
  std::atomic<bool> is_woken{false};
  const auto wake = member->lost_token().on_cancel([&] { is_woken = true; });
  victim.reset();
  EXPECT_TRUE(eventually([&] { return is_woken.load(); }));
}

}  // namespace
}  // namespace brigade::rpc
