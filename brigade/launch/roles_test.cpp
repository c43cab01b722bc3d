#include "brigade/launch/roles.h"

#include <gtest/gtest.h>

#include <set>

#include "brigade/cluster/address.h"

namespace brigade::launch {
namespace {

TEST(Roles, WorkersComeFirstThenTheEvaluatorThenTheServers) {
  const Roles roles{.servers = 2, .workers = 3, .has_evaluator = true};
  ASSERT_EQ(num_processes(roles), 6);
  std::vector<std::string> labels;
  for (int process = 0; process < 6; ++process) labels.push_back(label_of(roles, process));
  EXPECT_EQ(labels, (std::vector<std::string>{"worker:0", "worker:1", "worker:2", "evaluator:0",
                                              "ps:0", "ps:1"}));
  EXPECT_FALSE(is_server(roles, 3));
  EXPECT_TRUE(is_server(roles, 4));
  EXPECT_EQ(first_server({.servers = 1, .workers = 2}), 2);
}

TEST(Roles, EachTaskHasAnAddressOfItsOwnThatNoConnectionGets) {
  const Roles roles{.servers = 2, .workers = 2, .has_evaluator = true};
  const cluster::ClusterSpec cluster = make_cluster(roles);
  std::set<std::string> addresses;
  for (int process = 0; process < num_processes(roles); ++process) {
    const std::string& address = cluster.task_address(task_of(roles, process));
    EXPECT_TRUE(addresses.insert(address).second) << address;
    const cluster::Address parsed = cluster::parse_address(address);
    EXPECT_EQ(parsed.host, "127.0.0.1");
    EXPECT_LT(parsed.port, 30000);
  }
}

}  // namespace
}  // namespace brigade::launch
