#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/testing/thread_cluster.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::join_all;
using testing::test_options;

int num_threads() {
  int threads = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ++threads;
  }
  return threads;
}

TEST(Join, ClusterOfOneNeedsNobody) {
  const auto alone = join({}, test_options());
  EXPECT_EQ(alone->members().size(), 1u);
}

TEST(Join, MembersKnowEachOther) {
  const auto server = make_rendezvous_server({.world_size = 3});
  const auto members = join_all(*server, 3, test_options());
  for (int rank = 0; rank < 3; ++rank) {
    const auto& membership = *members[static_cast<std::size_t>(rank)];
    EXPECT_EQ(membership.self().rank, rank);
    ASSERT_EQ(membership.members().size(), 3u);
    EXPECT_EQ(membership.members()[1].task, (cluster::Task{"worker", 1}));
    EXPECT_EQ(membership.members()[2].pid, ::getpid());
    EXPECT_EQ(membership.members()[2].identity, cluster::this_host_identity());
    EXPECT_EQ(membership.members()[2].address, "") << "the rendezvous is on the loopback interface";
    EXPECT_FALSE(membership.lost());
  }
}

TEST(Join, FirstMemberServesWhereNoLauncherDoes) {
  std::vector<cluster::ClusterConfig> configs;
  const std::string address = "localhost:" + std::to_string(testing::free_port());
  for (const int rank : {1, 0}) {
    configs.push_back(testing::launched_config(address, rank, 2));
    configs.back().rendezvous_host = cluster::ClusterConfig::RendezvousHost::kFirstMember;
  }
  auto joined = testing::join_together(configs, test_options());
  for (const auto& one : joined) ASSERT_FALSE(one.error) << one.error->what();
  joined[0].membership->set("key", "value");
  EXPECT_EQ(joined[1].membership->get("key", seconds(10)), "value");
  joined[1].membership.reset();  // the first ends, with the rendezvous: no loss
  EXPECT_TRUE(testing::eventually([&] {
    try {
      joined[0].membership->set("key", "value");
      return false;
    } catch (const Error& error) {
      return std::string_view(error.what()).find("has left") != std::string_view::npos;
    }
  }));
  EXPECT_FALSE(joined[0].membership->lost());
}

TEST(Join, MembersJoinOverIpv6) {
  std::unique_ptr<RendezvousServer> server;
  try {
    server = make_rendezvous_server({.address = "[::1]:0", .world_size = 2});
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(join_all(*server, 2, test_options()).size(), 2u);
}

TEST(Join, MembersJoinWithoutAKeyUnderOtherNamesOfThisMachine) {
  const auto server = make_rendezvous_server({.address = "[::ffff:127.0.0.1]:0", .world_size = 2});
  EXPECT_EQ(join_all(*server, 2, test_options()).size(), 2u);
}

TEST(Join, StoreCarriesBytesNumbersAndBarriers) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const auto members = join_all(*server, 2, test_options());
  const std::string bytes("\0\xff\n", 3);
  std::jthread setter([&] {
    members[1]->set("key", bytes);
    members[1]->barrier("end", seconds(10));
  });
  EXPECT_EQ(members[0]->get("key", seconds(10)), bytes);
  members[0]->barrier("end", seconds(10));
  setter.join();
  EXPECT_EQ(members[0]->add("count", 40), 40);
  EXPECT_EQ(members[1]->add("count", 2), 42);
  members[1]->set("large", std::string(8 << 20, 'x'));
  EXPECT_EQ(members[0]->get("large", seconds(10)).size(), std::size_t{8} << 20);
}

TEST(Join, WaitsEndAtTheirDeadlinesAndNameWhatIsMissing) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const auto members = join_all(*server, 2, test_options());
  try {
    members[0]->get("weights", milliseconds(30));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(error.what(), HasSubstr("weights"));
  }
  try {
    members[0]->barrier("end", milliseconds(30));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(error.what(), HasSubstr("/job:worker/task:1"));
  }
}

TEST(Join, LeavingIsNoLoss) {
  std::vector<cluster::LostMember> lost;
  const auto server = make_rendezvous_server(
      {.world_size = 2, .on_lost = [&](const auto& member, int) { lost.push_back(member); }});
  auto members = join_all(*server, 2, test_options());
  members[1].reset();
  EXPECT_THROW(members[0]->barrier("end", seconds(10)), Error);
  members[0]->set("key", "value");
  EXPECT_FALSE(members[0]->lost());
  members[0]->leave();
  EXPECT_THROW(members[0]->set("key", "value"), Error);
  EXPECT_TRUE(lost.empty());
}

TEST(Join, EndIsQuickAndLeavesNoThread) {
  const int before = num_threads();
  {
    auto server = make_rendezvous_server({.world_size = 2});
    const auto members = join_all(*server, 2, test_options());
    const auto start = std::chrono::steady_clock::now();
    server.reset();  // while its members are there
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(1));
  }
  EXPECT_TRUE(testing::eventually([&] { return num_threads() <= before; })) << num_threads();
}

TEST(Join, PortIsNeverShared) {
  const auto server = make_rendezvous_server({.world_size = 1});
  try {
    make_rendezvous_server({.address = server->address(), .world_size = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(server->address()));
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
}

TEST(Join, NextGenerationJoinsAndThePreviousIsAborted) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const auto before = join_all(*server, 2, test_options());
  server->begin_generation(1, 1);
  EXPECT_TRUE(testing::eventually([&] { return before[0]->lost_token().is_cancelled(); }));
  try {
    before[0]->set("key", "value");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
  }
  auto config = testing::launched_config(server->address(), 0, 2);
  config.generation = 1;  // of two: the launcher says one
  EXPECT_THROW(join(config, test_options()), Error);
}

}  // namespace
}  // namespace brigade::rpc
