#include "brigade/cluster/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;
using ::testing::StartsWith;
using Variables = std::map<std::string, std::string>;

ClusterConfig resolve(const Variables& variables, const ResolveOptions& options = {}) {
  return resolve_cluster(make_environment(variables), options);
}

std::string resolver_refusal(const Variables& variables, const ResolveOptions& options = {}) {
  return refusal([&] { resolve(variables, options); });
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kLaunched = {{"BRIGADE_RENDEZVOUS", "127.0.0.1:4000"},
                             {"BRIGADE_GENERATION", "3"},
                             {"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"}};
const Variables kTorchrun = {{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "0"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "host0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"}};
const Variables kSlurm = {{"SLURM_STEP_NODELIST", "n[08-09]"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                          {"SLURM_PROCID", "2"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_JOB_ID", "4711"},
                          {"SLURM_STEP_ID", "0"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "job7"}};
const Variables kKubernetes = {{"JOB_COMPLETION_INDEX", "1"},
                               {"BRIGADE_KUBERNETES_COMPLETIONS", "3"},
                               {"BRIGADE_KUBERNETES_SERVICE", "trainers"},
                               {"HOSTNAME", "mnist-2-1"}};
const Variables kTfConfig = {
    {"TF_CONFIG",
     R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}};

TEST(Resolver, WithoutAClusterThisProcessIsAlone) {
  const ClusterConfig config = resolve({});
  EXPECT_EQ(config.world_size, 1);
  EXPECT_EQ(config.rank, 0);
  EXPECT_TRUE(config.is_chief());
  EXPECT_EQ(config.rendezvous, "");
  EXPECT_EQ(config.source, kNoCluster);
}

TEST(Resolver, ReadsTfConfig) {
  const ClusterConfig config = resolve(kTfConfig);
  EXPECT_EQ(config.task, (Task{"worker", 1}));
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.rendezvous, "a:1");
  EXPECT_EQ(config.source, "TF_CONFIG");
  EXPECT_EQ(config.rendezvous_host, ClusterConfig::RendezvousHost::kFirstMember);
}

TEST(Resolver, TfConfigOfOneTaskOrNoneIsOneWorker) {
  EXPECT_EQ(resolve({{"TF_CONFIG", "{}"}}).source, kNoCluster);
  const ClusterConfig one = resolve({{"TF_CONFIG", R"({"cluster": {"worker": ["a:1"]}})"}});
  EXPECT_EQ(one.world_size, 1);
  EXPECT_EQ(one.source, "TF_CONFIG");
  EXPECT_THAT(resolver_refusal({{"TF_CONFIG", " "}}), HasSubstr("TF_CONFIG: it is set, but empty"));
}

TEST(Resolver, ReadsTheEnvironmentOfTheLauncher) {
  const ClusterConfig config = resolve(kLaunched);
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.world_size, 4);
  EXPECT_EQ(config.local_rank, 1);
  EXPECT_EQ(config.local_world_size, 2);
  EXPECT_EQ(config.generation, 3);
  EXPECT_EQ(config.rendezvous, "127.0.0.1:4000");
  EXPECT_EQ(config.rendezvous_host, ClusterConfig::RendezvousHost::kLauncher);
  EXPECT_TRUE(config.cluster.is_empty());
  EXPECT_EQ(config.task, (Task{"worker", 1}));
}

TEST(Resolver, SaysWhichOfTheLaunchersVariablesIsWrong) {
  EXPECT_EQ(resolver_refusal(without(kLaunched, "WORLD_SIZE")),
            "INVALID_ARGUMENT: In the environment of brigade launch, WORLD_SIZE is missing; set it "
            "as well, or none of the set.");
  EXPECT_THAT(resolver_refusal(with(kLaunched, "BRIGADE_RENDEZVOUS", "x")),
              HasSubstr("BRIGADE_RENDEZVOUS is wrong: 'x' is not an address"));
  EXPECT_THAT(resolver_refusal(with(kLaunched, "BRIGADE_GENERATION", "-1")),
              HasSubstr("BRIGADE_GENERATION is '-1'"));
  EXPECT_THAT(resolver_refusal(with(kLaunched, "LOCAL_RANK", "2")),
              HasSubstr("LOCAL_RANK is 2 and LOCAL_WORLD_SIZE is 2; local ranks go from 0 to 1."));
  EXPECT_THAT(resolver_refusal(with(kLaunched, "LOCAL_WORLD_SIZE", "5")),
              HasSubstr("LOCAL_WORLD_SIZE is 5, more than all processes, which are 4."));
}

TEST(Resolver, ReadsTheTorchrunEnvironment) {
  const ClusterConfig config = resolve(kTorchrun);
  EXPECT_EQ(config.rank, 2);
  EXPECT_EQ(config.world_size, 4);
  EXPECT_EQ(config.local_rank, 0);
  EXPECT_EQ(config.generation, 1);
  EXPECT_EQ(config.rendezvous, "host0:29500");
  EXPECT_EQ(config.source, "the torchrun environment");
}

TEST(Resolver, LeavesTorchrunItsOwnPort) {
  const Variables agent = with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(resolve(agent).rendezvous, "host0:29501");
  EXPECT_EQ(resolve(with(agent, "MASTER_PORT", "65535")).rendezvous, "host0:65534");
}

TEST(Resolver, BracketsAnIpv6Master) {
  EXPECT_EQ(resolve(with(kTorchrun, "MASTER_ADDR", "::1")).rendezvous, "[::1]:29500");
}

TEST(Resolver, SaysWhichOfTorchrunsVariablesIsWrong) {
  for (const char* name : {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK"}) {
    EXPECT_EQ(resolver_refusal(without(kTorchrun, name)),
              "INVALID_ARGUMENT: In the torchrun environment, " + std::string(name) +
                  " is missing; set it as well, or none of the set.");
  }
  EXPECT_THAT(resolver_refusal(with(kTorchrun, "RANK", "-1")), HasSubstr("RANK is '-1'"));
  EXPECT_THAT(resolver_refusal(with(kTorchrun, "RANK", "4")),
              HasSubstr("RANK is 4 and WORLD_SIZE is 4; ranks go from 0 to 3."));
  EXPECT_THAT(resolver_refusal(with(kTorchrun, "MASTER_PORT", "70000")),
              HasSubstr("MASTER_ADDR and MASTER_PORT make no address: 'host0:70000'"));
  EXPECT_THAT(resolver_refusal(with(kTorchrun, "MASTER_ADDR", "tcp://x")),
              HasSubstr("make no address"));
}

TEST(Resolver, OneProcessUnderTorchrunNeedsNoMaster) {
  EXPECT_EQ(resolve({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).rendezvous, "");
}

TEST(Resolver, ReadsASlurmStep) {
  const ClusterConfig config = resolve(kSlurm);
  EXPECT_EQ(config.rank, 2);
  EXPECT_EQ(config.world_size, 3);
  EXPECT_EQ(config.local_rank, 0);
  EXPECT_EQ(config.local_world_size, 1);
  EXPECT_THAT(config.rendezvous, StartsWith("n08:"));
  EXPECT_EQ(config.source, "Slurm's environment");
  EXPECT_EQ(resolve(with(kSlurm, "MASTER_PORT", "5")).rendezvous, "n08:5");
  EXPECT_THAT(resolve(with(kSlurm, "MASTER_ADDR", "ib0")).rendezvous, StartsWith("ib0:"));
  EXPECT_NE(resolve(with(kSlurm, "SLURM_STEP_ID", "1")).rendezvous, config.rendezvous);
}

TEST(Resolver, ABatchScriptOfSlurmIsOneProcess) {
  EXPECT_EQ(resolve({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).world_size, 1);
}

TEST(Resolver, SaysWhichOfSlurmsVariablesIsWrong) {
  EXPECT_THAT(resolver_refusal(without(kSlurm, "SLURM_PROCID")),
              HasSubstr("In Slurm's environment, SLURM_PROCID is missing"));
  EXPECT_THAT(resolver_refusal(without(kSlurm, "SLURM_STEP_NUM_TASKS")),
              HasSubstr("SLURM_STEP_NUM_TASKS is missing"));
  EXPECT_THAT(resolver_refusal(with(kSlurm, "SLURM_STEP_NODELIST", "n[1")),
              HasSubstr("SLURM_STEP_NODELIST is wrong. The list 'n[1' is not one of Slurm's"));
  EXPECT_THAT(
      resolver_refusal(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2(x2)")),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE counts 4 tasks on 2 hosts, but there are 3 tasks"));
  EXPECT_THAT(resolver_refusal(with(kSlurm, "SLURM_NODEID", "2")), HasSubstr("SLURM_NODEID is 2"));
}

TEST(Resolver, ReadsOpenMpiOnOneHost) {
  const ClusterConfig config = resolve(kOpenMpi);
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.world_size, 2);
  EXPECT_EQ(config.local_world_size, 2);
  EXPECT_THAT(config.rendezvous, StartsWith("127.0.0.1:"));
  EXPECT_EQ(config.source, "Open MPI's environment");
}

TEST(Resolver, OpenMpiOnSeveralHostsNeedsAMaster) {
  const Variables spread = with(kOpenMpi, "OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_THAT(resolver_refusal(spread), HasSubstr("mpirun -x MASTER_ADDR=<host of rank 0>"));
  EXPECT_EQ(resolve(with(with(spread, "MASTER_ADDR", "h"), "MASTER_PORT", "9")).rendezvous, "h:9");
  EXPECT_THAT(resolver_refusal(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("In Open MPI's environment, OMPI_COMM_WORLD_SIZE is missing"));
}

TEST(Resolver, ReadsAKubernetesIndexedJob) {
  const ClusterConfig config = resolve(kKubernetes);
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.world_size, 3);
  EXPECT_EQ(config.rendezvous, "mnist-2-0.trainers:29400");
  EXPECT_EQ(config.cluster.task_address({"worker", 2}), "mnist-2-2.trainers:29400");
  EXPECT_EQ(resolve(with(with(kKubernetes, "BRIGADE_KUBERNETES_JOB", "j"),
                         "BRIGADE_KUBERNETES_PORT", "7"))
                .rendezvous,
            "j-0.trainers:7");
}

TEST(Resolver, SaysWhichOfKubernetesVariablesIsWrong) {
  EXPECT_EQ(resolve(without(kKubernetes, "BRIGADE_KUBERNETES_COMPLETIONS")).world_size, 1);
  EXPECT_THAT(resolver_refusal(without(kKubernetes, "JOB_COMPLETION_INDEX")),
              HasSubstr("give the job `completionMode: Indexed`"));
  EXPECT_THAT(resolver_refusal(without(kKubernetes, "BRIGADE_KUBERNETES_SERVICE")),
              HasSubstr("BRIGADE_KUBERNETES_SERVICE is missing"));
  EXPECT_THAT(resolver_refusal(with(kKubernetes, "HOSTNAME", "mnist")),
              HasSubstr("HOSTNAME is 'mnist', which does not end in '-1'; set "
                        "BRIGADE_KUBERNETES_JOB"));
  EXPECT_THAT(resolver_refusal(with(kKubernetes, "JOB_COMPLETION_INDEX", "3")),
              HasSubstr("JOB_COMPLETION_INDEX is 3 and BRIGADE_KUBERNETES_COMPLETIONS is 3"));
}

TEST(Resolver, AsksInTheOrderThatItsHeaderSays) {
  Variables all;
  const std::vector<std::pair<Variables, std::string>> sources = {
      {kSlurm, "Slurm's environment"},
      {kOpenMpi, "Open MPI's environment"},
      {kKubernetes, "the environment of the Kubernetes job"},
      {kTorchrun, "the torchrun environment"},
      {kTfConfig, "TF_CONFIG"},
      {kLaunched, "the environment of brigade launch"}};
  for (const auto& [variables, source] : sources) {
    for (const auto& [name, value] : variables) all[name] = value;
    EXPECT_EQ(resolve(all).source, source);
  }
  EXPECT_EQ(resolve(all, {.cluster = "worker=a:1", .task = "worker:0"}).source, "the cluster flag");
  EXPECT_THAT(
      cluster_sources(make_environment(all)),
      ElementsAre("brigade launch", "TF_CONFIG", "torchrun", "Kubernetes", "Open MPI", "Slurm"));
}

TEST(Resolver, ReadsFlagsInBothForms) {
  const ClusterConfig config =
      resolve({}, {.cluster = "worker=a:1,b:1;chief=c:1", .task = "worker:1"});
  EXPECT_EQ(config.rank, 2);
  EXPECT_EQ(config.rendezvous, "c:1");
  EXPECT_EQ(resolve({}, {.cluster = kTfConfig.at("TF_CONFIG")}).rank, 1);
  EXPECT_EQ(resolve({}, {.cluster = kTfConfig.at("TF_CONFIG"), .task = "worker:0"}).rank, 0);
  EXPECT_THAT(resolver_refusal({}, {.cluster = "worker=a:1,b:1", .task = "worker:2"}),
              HasSubstr("the cluster flag: this process is /job:worker/task:2, but that index"));
  EXPECT_THAT(
      resolver_refusal({}, {.cluster = "worker=a:1,b:1", .task = "worker"}),
      HasSubstr("'worker' has no index, and there are 2 tasks of this type: write worker:0"));
  EXPECT_EQ(resolve({}, {.cluster = "chief=c:1;worker=a:1", .task = "worker"}).rank, 1);
  EXPECT_THAT(resolver_refusal({}, {.task = "worker:2"}), HasSubstr("is given without a cluster"));
  EXPECT_THAT(resolver_refusal({}, {.cluster = "{}"}), HasSubstr("it has no \"cluster\""));
}

TEST(Resolver, ReadsAFile) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("brigade_resolver_" + std::to_string(getpid()));
  std::ofstream(path) << R"({"cluster": {"worker": ["a:1", "b:1"]}})";
  const ClusterConfig config = resolve({}, {.cluster = path, .task = "worker:1"});
  EXPECT_EQ(config.rank, 1);
  EXPECT_EQ(config.source, "the file " + path);
  std::ofstream(path) << "{";
  EXPECT_THAT(resolver_refusal({}, {.cluster = path, .task = "worker:1"}),
              HasSubstr("the file " + path + ": it is not JSON: line 1, column 2"));
  std::filesystem::remove(path);
  EXPECT_THAT(resolver_refusal({}, {.cluster = path}), StartsWith("NOT_FOUND: "));
}

}  // namespace
}  // namespace brigade::cluster
