#include "brigade/launch/rank_environment.h"

#include <gtest/gtest.h>

#include "brigade/cluster/resolver.h"

namespace brigade::launch {
namespace {

using Variables = std::map<std::string, std::optional<std::string>>;

RankConfig rank_config() {
  return {.rank = 1,
          .world_size = 3,
          .generation = 4,
          .local_rank = 1,
          .local_world_size = 2,
          .host = 5,
          .rendezvous = "127.0.0.1:29400",
          .master = "127.0.0.1:29500",
          .gpus = "2,3"};
}

TEST(RankEnvironment, MatchesTorchrun) {
  const Variables variables = rank_environment(rank_config(), std::nullopt);
  EXPECT_EQ(variables.at("RANK"), "1");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "3");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(variables.at("GROUP_RANK"), "5");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(variables.at("MASTER_PORT"), "29500");
  EXPECT_EQ(variables.at("CUDA_VISIBLE_DEVICES"), "2,3");
}

TEST(RankEnvironment, IsUnderstoodByTheResolver) {
  const Variables variables = rank_environment(rank_config(), std::nullopt);
  const auto config = cluster::resolve_cluster([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : found->second;
  });
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.world_size, 3);
  EXPECT_EQ(config.generation, 4);
  EXPECT_EQ(config.rendezvous, "127.0.0.1:29400");
  EXPECT_EQ(config.rendezvous_host, cluster::ClusterConfig::RendezvousHost::kLauncher);
}

TEST(RankEnvironment, RemovesAnInheritedRendezvous) {
  RankConfig alone = rank_config();
  alone.rendezvous.clear();
  EXPECT_EQ(rank_environment(alone, std::nullopt).at("BRIGADE_RENDEZVOUS"), std::nullopt);
}

TEST(RankEnvironment, HasThePathOfTheKeyButNotTheKey) {
  const auto key = cluster::ClusterKey::parse(std::string(64, 'a'));
  EXPECT_EQ(rank_environment(rank_config(), key).at("BRIGADE_CLUSTER_KEY"), std::nullopt);
  EXPECT_EQ(rank_environment(rank_config(), key).at("BRIGADE_CLUSTER_KEY_FILE"), "/proc/self/fd/19");
  EXPECT_EQ(rank_environment(rank_config(), std::nullopt).at("BRIGADE_CLUSTER_KEY_FILE"), std::nullopt);
}

TEST(RankEnvironment, SetsTheNetworkInterfaceOfNccl) {
  RankConfig here = rank_config();
  EXPECT_FALSE(rank_environment(here, std::nullopt).contains("NCCL_SOCKET_IFNAME"));
  here.nccl_interface = "lo";
  EXPECT_EQ(rank_environment(here, std::nullopt).at("NCCL_SOCKET_IFNAME"), "lo");
}

TEST(RankEnvironment, SetsTheGpuMemoryFraction) {
  RankConfig limited = rank_config();
  EXPECT_FALSE(rank_environment(limited, std::nullopt).contains("BRIGADE_GPU_MEMORY_FRACTION"));
  limited.gpu_memory_fraction = 0.25;
  EXPECT_EQ(rank_environment(limited, std::nullopt).at("BRIGADE_GPU_MEMORY_FRACTION"), "0.25");
}

TEST(RankEnvironment, RemovesTheBracketsOfAnAddress) {
  RankConfig far = rank_config();
  far.master = "[fd00::1]:7";
  EXPECT_EQ(rank_environment(far, std::nullopt).at("MASTER_ADDR"), "fd00::1");
}

TEST(RankEnvironment, OfAnIndependentProcessNamesNoOthers) {
  const Variables variables = independent_environment(rank_config());
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "BRIGADE_RENDEZVOUS",
                           "BRIGADE_CLUSTER_KEY", "BRIGADE_CLUSTER_KEY_FILE"})
    EXPECT_EQ(variables.at(name), std::nullopt) << name;
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
}

TEST(RankEnvironment, AFreeAddressIsOnLoopbackWithAPort) {
  const std::string address = free_address("127.0.0.1");
  EXPECT_EQ(address.substr(0, 10), "127.0.0.1:");
  EXPECT_GT(std::stoi(address.substr(10)), 0);
}

}  // namespace
}  // namespace brigade::launch
