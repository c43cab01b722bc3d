#include "brigade/launch/start_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/cluster/resolver.h"

namespace brigade::launch {
namespace {

using testing::ElementsAre;

TEST(StartPlan, EachRankHasItsArgumentsItsRankAndItsResources) {
  const JobOptions options{.command = {"train", "--dir={rank}"},
                           .processes = 2,
                           .arguments_by_rank = {{"--rate", "1"}, {"--seed={rank}"}}};
  const GenerationConfig generation{
      .generation = 3, .world_size = 2, .rendezvous = "127.0.0.1:1", .master = "127.0.0.1:2"};
  const auto plan =
      plan_start(options, generation, {{}, {.cores = machine::CoreSet({5}), .gpus = "7"}});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_THAT(plan[0].command, ElementsAre("train", "--dir=0", "--rate", "1"));
  EXPECT_THAT(plan[1].command, ElementsAre("train", "--dir=1", "--seed=1"));
  EXPECT_EQ(plan[1].environment.at("RANK"), "1");
  EXPECT_EQ(plan[1].environment.at("MASTER_PORT"), "2");
  EXPECT_EQ(plan[1].environment.at("CUDA_VISIBLE_DEVICES"), "7");
  EXPECT_EQ(plan[1].cores, machine::CoreSet({5}));
}

// NCCL stays on the host of a job that has one, unless the user has chosen where it listens.
TEST(StartPlan, KeepsNcclOnOneHostUnlessTheUserChoseAnInterface) {
  constexpr const char* kVariable = "NCCL_SOCKET_IFNAME";
  const std::optional<std::string> before = base::environment(kVariable);
  const auto is_set = [&](int hosts) {
    const JobOptions options{.command = {"train"}, .hosts = {.count = hosts}};
    return plan_start(options, {.rendezvous = "127.0.0.1:1", .master = "127.0.0.1:2"}, {{}})[0]
        .environment.contains(kVariable);
  };
  ::unsetenv(kVariable);
  EXPECT_TRUE(is_set(1));
  EXPECT_FALSE(is_set(2));
  ::setenv(kVariable, "eth1", /*overwrite=*/1);
  EXPECT_FALSE(is_set(1));
  before ? ::setenv(kVariable, before->c_str(), 1) : ::unsetenv(kVariable);
}

TEST(StartPlan, IndependentProcessesGetNoKey) {
  JobOptions options{.command = {"train"}, .key = cluster::ClusterKey::generate()};
  EXPECT_TRUE(plan_start(options, {}, {{}})[0].key);
  options.coupling = Coupling::kIndependent;
  const auto plan = plan_start(options, {}, {{}});
  EXPECT_FALSE(plan[0].key);
  EXPECT_EQ(plan[0].environment.at("BRIGADE_CLUSTER_KEY"), std::nullopt);
}

TEST(StartPlan, ATaskHasItsTfConfigAndOnlyAServerTheFolder) {
  const cluster::ClusterSpec cluster(std::map<std::string, std::vector<std::string>>{
      {"ps", {"127.0.0.1:1"}}, {"worker", {"127.0.0.1:2"}}});
  const JobOptions options{.command = {"train"},
                           .processes = 2,
                           .roles = Roles{.folder = "/ps"},
                           .key = cluster::ClusterKey::generate()};
  const auto plan = plan_start(options, {.cluster = cluster.to_json()}, {{}, {}});
  ASSERT_EQ(plan.size(), 2u);
  for (const SpawnOptions& each : plan) {
    EXPECT_TRUE(each.key);
    EXPECT_EQ(each.environment.at("BRIGADE_CLUSTER_KEY_FILE"), "/proc/self/fd/19");
    EXPECT_EQ(each.environment.at("RANK"), std::nullopt);
  }
  EXPECT_EQ(plan[0].environment.at("BRIGADE_SERVER_FOLDER"), std::nullopt);
  EXPECT_EQ(plan[1].environment.at("BRIGADE_SERVER_FOLDER"), "/ps");
  const auto config = cluster::resolve_cluster([&](const std::string& name) {
    const auto found = plan[1].environment.find(name);
    return found == plan[1].environment.end() ? std::nullopt : found->second;
  });
  EXPECT_EQ(config.task, (cluster::Task{"ps", 0}));
  EXPECT_EQ(config.cluster, cluster);
}

TEST(StartPlan, RanksOfALaterHostFollowThoseOfTheEarlier) {
  const JobOptions options{.command = {"train", "{rank}/{world_size}"},
                           .processes = 2,
                           .hosts = {.count = 2, .index = 1, .rendezvous = "a:1"},
                           .arguments_by_rank = {{"x"}, {"y"}}};
  const auto plan = plan_start(options, {.world_size = 5, .first_rank = 3}, {{}, {}});
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_THAT(plan[1].command, ElementsAre("train", "4/5", "y"));
  EXPECT_EQ(plan[1].environment.at("RANK"), "4");
  EXPECT_EQ(plan[1].environment.at("LOCAL_RANK"), "1");
  EXPECT_EQ(plan[1].environment.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(plan[1].environment.at("GROUP_RANK"), "1");
}

void expect_refused(const JobOptions& options, const std::string& saying) {
  try {
    check(options);
    FAIL() << saying;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr(saying));
  }
}

TEST(JobOptions, InconsistentOptionsAreNamed) {
  const std::vector<std::string> command = {"true"};
  EXPECT_NO_THROW(check({.command = command, .elastic = ElasticRange{1, 1}}));
  expect_refused({}, "no program");
  expect_refused({.command = command, .processes = 0}, "0 processes");
  expect_refused({.command = command, .max_restarts = -1}, "-1");
  expect_refused({.command = command, .processes = 2, .arguments_by_rank = {{"a"}}}, "1 processes");
  expect_refused({.command = command, .processes = 5, .elastic = ElasticRange{1, 4}}, "1 to 4");
  expect_refused({.command = command, .elastic = ElasticRange{0, 4}}, "0 to 4");
  expect_refused({.command = command, .status_port = 70'000}, "70000");
  expect_refused({.command = command, .gpu_memory_fraction = 0.0}, "0; above 0");
  expect_refused({.command = command, .gpu_memory_fraction = 1.5}, "1.5");
}

TEST(JobOptions, InconsistentRolesAreNamed) {
  const std::vector<std::string> command = {"true"};
  const Roles roles{.servers = 1, .workers = 2};
  EXPECT_NO_THROW(check({.command = command, .processes = 3, .roles = roles}));
  expect_refused({.command = command, .processes = 2, .roles = roles}, "are 3 processes");
  expect_refused({.command = command, .roles = Roles{.servers = 0}}, "0 parameter servers");
  const HostOptions two{.count = 2, .index = 1, .rendezvous = "a:1"};
  const Roles on_two{.servers = 1, .workers = 2, .hosts = 2};
  EXPECT_NO_THROW(check({.command = command, .processes = 1, .hosts = two, .roles = on_two}));
  expect_refused({.command = command, .processes = 2, .hosts = two, .roles = on_two},
                 "are 1 processes on host 1");
  expect_refused({.command = command, .processes = 3, .hosts = two, .roles = roles}, "are on 1");
  const Roles on_four{.servers = 1, .workers = 2, .hosts = 4};
  for (const int index : {1, 3}) {
    const HostOptions four{.count = 4, .index = index, .rendezvous = "a:1"};
    expect_refused({.command = command,
                    .processes = num_processes_on(on_four, index),
                    .hosts = four,
                    .roles = on_four},
                   "3 processes for 4 hosts");
  }
  expect_refused(
      {.command = command, .processes = 3, .coupling = Coupling::kIndependent, .roles = roles},
      "neither elastic nor independent");
}

TEST(JobOptions, InconsistentHostsAreNamed) {
  const std::vector<std::string> command = {"true"};
  const HostOptions two{.count = 2, .index = 1, .rendezvous = "a:1"};
  EXPECT_NO_THROW(check({.command = command, .hosts = two}));
  expect_refused({.command = command, .hosts = {.count = 0}}, "0 hosts");
  expect_refused({.command = command, .hosts = {.count = 2, .index = 2}}, "hosts 0 to 1");
  expect_refused({.command = command, .hosts = {.count = 2}}, "address");
  expect_refused({.command = command, .hosts = {.count = 2, .rendezvous = "a"}}, "port");
  expect_refused({.command = command, .hosts = two, .elastic = ElasticRange{1, 1}}, "one host");
  expect_refused({.command = command, .hosts = two, .coupling = Coupling::kIndependent},
                 "no other host");
}

}  // namespace
}  // namespace brigade::launch
