#include "brigade/cluster/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;
using Jobs = std::map<std::string, std::vector<std::string>>;
using SparseJobs = std::map<std::string, ClusterSpec::Tasks>;

ClusterSpec example() {
  return ClusterSpec(Jobs{{"worker", {"b:1", "c:1"}}, {"chief", {"a:1"}}, {"ps", {"p:1"}}});
}

std::string spec_refusal(const SparseJobs& jobs) {
  return refusal([&] { ClusterSpec{jobs}; });
}

TEST(ClusterSpec, FindsTasksAndAddresses) {
  const ClusterSpec cluster = example();
  EXPECT_THAT(cluster.jobs(), ElementsAre("chief", "ps", "worker"));
  EXPECT_EQ(cluster.num_tasks("worker"), 2);
  EXPECT_EQ(cluster.num_tasks("evaluator"), 0);
  EXPECT_THAT(cluster.task_indices("worker"), ElementsAre(0, 1));
  EXPECT_EQ(cluster.task_address({"worker", 1}), "c:1");
  EXPECT_TRUE(cluster.has({"worker", 1}));
  EXPECT_FALSE(cluster.has({"worker", 2}));
  EXPECT_TRUE(ClusterSpec().is_empty());
}

TEST(ClusterSpec, NamesTheKnownJobsAndTasksInErrors) {
  const ClusterSpec cluster = example();
  EXPECT_EQ(refusal([&] { cluster.task_indices("x"); }),
            "NOT_FOUND: No such job in the cluster: 'x'; there is chief, ps, worker.");
  EXPECT_EQ(refusal([&] {
              cluster.task_address({"worker", 7});
            }),
            "NOT_FOUND: No task with index 7 in the job 'worker'; its tasks are 0, 1.");
}

TEST(ClusterSpec, ChiefTrainsFirstAndIndicesMayHaveGaps) {
  const ClusterSpec cluster(SparseJobs{
      {"worker", {{2, "c:1"}, {10, "d:1"}}}, {"chief", {{0, "a:1"}}}, {"evaluator", {{0, "e:1"}}}});
  EXPECT_THAT(cluster.training_tasks(),
              ElementsAre(Task{"chief", 0}, Task{"worker", 2}, Task{"worker", 10}));
}

TEST(ClusterSpec, WritesListsForDenseJobsAndObjectsForOthers) {
  const ClusterSpec cluster(SparseJobs{{"worker", {{0, "a:1"}, {2, "b:1"}}}, {"ps", {{0, "p:1"}}}});
  EXPECT_EQ(cluster.to_json(), R"({"ps":["p:1"],"worker":{"0":"a:1","2":"b:1"}})");
}

TEST(ClusterSpec, RefusesInvalidClusters) {
  EXPECT_EQ(spec_refusal({{"worker", {{0, "a:1"}, {1, "A:1"}}}}),
            "INVALID_ARGUMENT: The cluster is not valid: /job:worker/task:0 and /job:worker/task:1 "
            "have the same address, A:1; give each task its own port.");
  EXPECT_THAT(spec_refusal({{"chief", {{0, "a:1"}}}, {"worker", {{0, "a:1"}}}}),
              HasSubstr("the chief is itself the first worker: list it once."));
  EXPECT_THAT(spec_refusal({{"worker", {{0, "a"}}}}),
              HasSubstr("of /job:worker/task:0, 'a' is not an address: it has no port"));
  EXPECT_THAT(spec_refusal({{"worker", {{-1, "a:1"}}}}),
              HasSubstr("the index of /job:worker/task:-1 is negative"));
  EXPECT_THAT(spec_refusal({{"worker", {}}}),
              HasSubstr("the job 'worker' has no tasks; leave it out"));
  EXPECT_THAT(spec_refusal({{"", {{0, "a:1"}}}}), HasSubstr("a job has no name"));
  EXPECT_THAT(spec_refusal({{"a/b", {{0, "a:1"}}}}),
              HasSubstr("the job's name 'a/b' has a '/' in it"));
}

TEST(ClusterFlag, ReadsJobsAndAddresses) {
  EXPECT_EQ(parse_cluster_flag("worker=a:1, b:1;chief=[::1]:2").to_json(),
            R"({"chief":["[::1]:2"],"worker":["a:1","b:1"]})");
}

TEST(ClusterFlag, SaysWhichPartIsWrong) {
  const auto flag_refusal = [](const char* text) {
    return refusal([&] { parse_cluster_flag(text); });
  };
  EXPECT_EQ(flag_refusal("worker=a:1;b:1"),
            "INVALID_ARGUMENT: 'b:1' in the cluster 'worker=a:1;b:1' is not job=addresses; write a "
            "cluster as chief=a:2222;worker=b:2222,c:2222.");
  EXPECT_THAT(flag_refusal("=a:1"), HasSubstr("is not job=addresses"));
  EXPECT_THAT(flag_refusal("worker=a:1;worker=b:1"), HasSubstr("has the job 'worker' twice"));
  EXPECT_THAT(flag_refusal("worker="), HasSubstr("'' is not an address"));
  EXPECT_THAT(flag_refusal("worker=a:1,a:1"), HasSubstr("have the same address"));
}

TEST(TaskFlag, ReadsEveryForm) {
  EXPECT_EQ(parse_task_flag("worker:1"), (Task{"worker", 1}));
  EXPECT_EQ(parse_task_flag("chief"), (Task{"chief", 0}));
  EXPECT_EQ(parse_task_flag("/job:ps/task:2"), (Task{"ps", 2}));
  for (const char* text : {"", ":1", "worker:", "worker:-1", "worker:1:2", "worker:x"}) {
    EXPECT_EQ(refusal([&] { parse_task_flag(text); }),
              "INVALID_ARGUMENT: '" + std::string(text) + "' names no task; write it as worker:1.");
  }
}

}  // namespace
}  // namespace brigade::cluster
