#include "brigade/comm/nccl/nccl_agreement.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/testing/in_memory_membership.h"

namespace brigade::comm {
namespace {

using cluster::testing::make_in_memory_memberships;
using Answer = std::optional<NcclObstacle>;

constexpr std::chrono::seconds kLong{60};

/// Calls `body(membership)` in one thread per member.
void in_each(const std::vector<std::string>& hosts,
             const std::function<void(cluster::Membership&)>& body) {
  const auto memberships = make_in_memory_memberships(static_cast<int>(hosts.size()), hosts);
  std::vector<std::thread> threads;
  for (const auto& membership : memberships) threads.emplace_back([&] { body(*membership); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<Answer> answers_to(const std::vector<std::string>& hosts,
                               const std::vector<NcclCapability>& capabilities) {
  std::vector<Answer> answers(hosts.size());
  in_each(hosts, [&](cluster::Membership& membership) {
    const auto rank = static_cast<std::size_t>(membership.self().rank);
    answers[rank] = agree_on_nccl(membership, "nccl/0/1", capabilities[rank], kLong);
  });
  return answers;
}

bool mentions(const Answer& answer, std::string_view text) {
  return answer && answer->reason.find(text) != std::string::npos;
}

TEST(AgreeOnNccl, FindsNoObstacleIfEachReplicaHasItsOwnGpu) {
  for (const Answer& answer :
       answers_to({"a", "a", "b"}, {{.cards = {"0", "1"}}, {.cards = {"2"}}, {.cards = {"0"}}}))
    EXPECT_FALSE(answer) << answer->reason;
}

TEST(AgreeOnNccl, NamesTwoProcessesOnOneGpu) {
  const auto answers =
      answers_to({"a", "b", "a"}, {{.cards = {"0", "65:00"}}, {}, {.cards = {"65:00"}}});
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer, answers[0]);
    EXPECT_TRUE(mentions(answer, "rank 0") && mentions(answer, "rank 2"));
    EXPECT_TRUE(mentions(answer, "65:00") && mentions(answer, "CUDA_VISIBLE_DEVICES"));
    EXPECT_EQ(answer->code, ErrorCode::kInvalidArgument);
  }
}

TEST(AgreeOnNccl, NamesTheProcessWithTwoReplicasOnOneGpu) {
  for (const Answer& answer : answers_to({"a", "a"}, {{.cards = {"0"}}, {.cards = {"1", "1"}}}))
    EXPECT_TRUE(mentions(answer, "two replicas of /job:worker/task:1"));
}

TEST(AgreeOnNccl, ReportsOneMembersObstacleOnAllMembers) {
  const NcclObstacle obstacle{ErrorCode::kUnimplemented, "not built in,\nthere"};
  for (const Answer& answer : answers_to({"a", "a"}, {{.cards = {"0"}}, {.obstacle = obstacle}})) {
    EXPECT_TRUE(mentions(answer, "rank 1") && mentions(answer, "not built in, there"));
    EXPECT_EQ(answer->code, ErrorCode::kUnimplemented);
  }
}

TEST(AgreeOnNccl, EndsAtTheDeadlineIfAMemberIsMissing) {
  const auto memberships = make_in_memory_memberships(2);
  EXPECT_THROW(agree_on_nccl(*memberships[0], "n", {}, std::chrono::milliseconds(20)), Error);
}

TEST(ExchangeNcclId, GivesRankZerosIdToAllMembers) {
  in_each({"a", "b", "b"}, [](cluster::Membership& membership) {
    EXPECT_EQ(exchange_nccl_id(
                  membership, "n", [&] { return base::str_cat("id of ", membership.self().rank); },
                  kLong),
              "id of 0");
  });
}

TEST(ExchangeNcclId, ReportsAFailureOnAllMembers) {
  in_each({"a", "b"}, [](cluster::Membership& membership) {
    const auto make = []() -> std::string {
      throw Error(ErrorCode::kUnavailable, "no socket interface found");
    };
    try {
      exchange_nccl_id(membership, "n", make, kLong);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("no socket interface found"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
    }
  });
}

Answer network(const std::vector<std::string>& hosts, Transport transport,
               const std::map<std::string, std::string>& variables) {
  return network_obstacle(*make_in_memory_memberships(2, hosts)[0], transport,
                          cluster::make_environment(variables));
}

TEST(NetworkObstacle, OnOneHostNcclNeedsTheLoopbackInterfaceOrAKey) {
  const std::vector<std::string> hosts = {"a", "a"};
  const std::string key = cluster::ClusterKey::generate().to_hex();
  EXPECT_TRUE(mentions(network(hosts, Transport::kNccl, {}), "NCCL_SOCKET_IFNAME=lo"));
  EXPECT_TRUE(network(hosts, Transport::kNccl, {{"NCCL_SOCKET_IFNAME", "eth0"}}));
  EXPECT_FALSE(network(hosts, Transport::kAuto, {{"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_FALSE(network(hosts, Transport::kAuto, {{"BRIGADE_CLUSTER_KEY", key}}));
}

TEST(NetworkObstacle, BetweenHostsNcclNeedsAKeyAndANamedInterfaceOrItsName) {
  const std::vector<std::string> hosts = {"a", "b"};
  const std::string key = cluster::ClusterKey::generate().to_hex();
  const std::map<std::string, std::string> with_key = {{"BRIGADE_CLUSTER_KEY", key}};
  auto with_both = with_key;
  with_both["NCCL_SOCKET_IFNAME"] = "ib0";
  EXPECT_TRUE(
      mentions(network(hosts, Transport::kNccl, {{"NCCL_SOCKET_IFNAME", "ib0"}}), "--new-key"));
  EXPECT_TRUE(mentions(network(hosts, Transport::kAuto, with_key), "in the clear"));
  EXPECT_FALSE(network(hosts, Transport::kNccl, with_key));
  EXPECT_FALSE(network(hosts, Transport::kAuto, with_both));
}

}  // namespace
}  // namespace brigade::comm
