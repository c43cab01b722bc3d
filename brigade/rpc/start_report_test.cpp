#include <gtest/gtest.h>

#include "brigade/rpc/start_report.h"

namespace brigade::rpc {
namespace {

cluster::ClusterConfig with_addresses() {
  cluster::ClusterConfig config;
  config.cluster = cluster::ClusterSpec(std::map<std::string, std::vector<std::string>>{
      {"chief", {"a:1"}}, {"worker", {"b:2", "c:3"}}});
  config.world_size = 3;
  config.rendezvous = "a:1";
  return config;
}

TEST(StartReport, NamesTasksWithAddresses) {
  EXPECT_EQ(missing_text(with_addresses(), {0, 2}, std::chrono::seconds(30)),
            "2 of 3 processes did not come within 30 s: /job:chief/task:0 at a:1 (rank 0), "
            "/job:worker/task:1 at c:3 (rank 2). See whether they were started and what they "
            "printed.");
}

TEST(StartReport, NamesRanksWhereThereAreNoAddresses) {
  cluster::ClusterConfig config;
  config.rendezvous = "a:1";
  EXPECT_EQ(describe_rank(config, 2), "rank 2");
  EXPECT_EQ(describe_host(config), "rank 0 at a:1");
  config.rendezvous_host = cluster::ClusterConfig::RendezvousHost::kLauncher;
  EXPECT_EQ(describe_host(config), "the launcher at a:1");
  EXPECT_EQ(describe_host(with_addresses()), "/job:chief/task:0 at a:1 (rank 0)");
}

}  // namespace
}  // namespace brigade::rpc
