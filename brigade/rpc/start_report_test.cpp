#include <gtest/gtest.h>

#include <numeric>
#include <vector>

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
            "2 of 3 processes did not join within 30 s: /job:chief/task:0 at a:1 (rank 0), "
            "/job:worker/task:1 at c:3 (rank 2). See whether they were started and what they "
            "printed.");
}

// Of a world size that somebody mistyped.
TEST(StartReport, NamesTheFirstOfAMillionMissingRanks) {
  std::vector<int> missing(999'999);
  std::iota(missing.begin(), missing.end(), 1);
  cluster::ClusterConfig config;
  config.world_size = 1'000'000;
  const std::string text = missing_text(config, missing, std::chrono::seconds(1));
  EXPECT_LT(text.size(), 1000u);
  EXPECT_NE(text.find("rank 1, rank 2"), std::string::npos) << text;
  EXPECT_NE(text.find("and 999979 more"), std::string::npos) << text;
}

TEST(StartReport, NamesTheFirstOfManyThatAreWaitedFor) {
  EXPECT_EQ(waiting_text(with_addresses(), {2}),
            "Waiting for 1 of 3 processes: /job:worker/task:1 at c:3 (rank 2)");
  cluster::ClusterConfig config;
  config.world_size = 11;
  EXPECT_EQ(waiting_text(config, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
            "Waiting for 10 of 11 processes: rank 1, rank 2, rank 3, rank 4, rank 5, rank 6, "
            "rank 7, rank 8 and 2 more");
}

TEST(StartReport, NamesRanksWhereThereAreNoAddresses) {
  cluster::ClusterConfig config;
  config.rendezvous = "a:1";
  EXPECT_EQ(describe_rank(config, 2), "rank 2");
  EXPECT_EQ(describe_host(config), "rank 0 at a:1");
  config.rendezvous_host = cluster::ClusterConfig::RendezvousHost::kLauncher;
  EXPECT_EQ(describe_host(config), "the launcher at a:1");
  config.task.job = "host";  // the job name of launchers
  EXPECT_EQ(describe_rank(config, 2), "host 2");
  EXPECT_EQ(describe_host(with_addresses()), "/job:chief/task:0 at a:1 (rank 0)");
}

}  // namespace
}  // namespace brigade::rpc
