#include "brigade/cluster/rank_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using Jobs = std::map<std::string, std::vector<std::string>>;

const Jobs kFull = {
    {"chief", {"c:1"}}, {"worker", {"a:1", "b:1"}}, {"evaluator", {"e:1"}}, {"ps", {"p:1", "q:1"}}};

ClusterConfig assigned(const Jobs& jobs, const std::optional<Task>& task) {
  return assign_rank({ClusterSpec(jobs), task}, "TF_CONFIG");
}

std::string rank_refusal(const Jobs& jobs, const std::optional<Task>& task) {
  return refusal([&] { assigned(jobs, task); });
}

// The ranks and counts are those of TensorFlow 2.21's multi_worker_util.
TEST(AssignRank, ChiefHasRankZeroAndWorkersFollow) {
  EXPECT_EQ(assigned(kFull, Task{"chief", 0}).rank, 0);
  EXPECT_TRUE(assigned(kFull, Task{"chief", 0}).is_chief());
  EXPECT_EQ(assigned(kFull, Task{"worker", 0}).rank, 1);
  EXPECT_FALSE(assigned(kFull, Task{"worker", 0}).is_chief());
  EXPECT_EQ(assigned(kFull, Task{"worker", 1}).rank, 2);
  const ClusterConfig config = assigned(kFull, Task{"worker", 1});
  EXPECT_EQ(config.world_size, 3);
  EXPECT_EQ(config.rendezvous, "c:1");
  EXPECT_EQ(config.source, "TF_CONFIG");
  EXPECT_EQ(config.cluster, ClusterSpec(kFull));
}

TEST(AssignRank, WithoutAChiefWorkerZeroIsIt) {
  const ClusterConfig config = assigned({{"worker", {"a:1", "b:1"}}}, Task{"worker", 0});
  EXPECT_TRUE(config.is_chief());
  EXPECT_EQ(config.rendezvous, "a:1");
}

TEST(AssignRank, ServersAndEvaluatorsDoNotTrain) {
  EXPECT_EQ(assigned(kFull, Task{"ps", 1}).rank, -1);
  EXPECT_EQ(assigned(kFull, Task{"evaluator", 0}).rank, -1);
  const ClusterConfig outside = assigned({{"worker", {"a:1", "b:1"}}}, Task{"evaluator", 0});
  EXPECT_EQ(outside.rank, -1);
  EXPECT_EQ(outside.world_size, 2);
  EXPECT_TRUE(outside.is_evaluator());
  EXPECT_FALSE(outside.is_chief());
}

TEST(AssignRank, OneTaskNeedsNoRendezvousAndNoTaskName) {
  const ClusterConfig config = assigned({{"chief", {"a:1"}}}, std::nullopt);
  EXPECT_EQ(config.task, (Task{"chief", 0}));
  EXPECT_EQ(config.world_size, 1);
  EXPECT_EQ(config.rendezvous, "");
}

TEST(AssignRank, SaysWhichTaskIsWrong) {
  const Jobs two = {{"worker", {"a:1", "b:1"}}};
  EXPECT_EQ(rank_refusal(two, Task{"worker", 2}),
            "INVALID_ARGUMENT: TF_CONFIG: this process is /job:worker/task:2, but that index is "
            "out of range; 'worker' has 0, 1.");
  EXPECT_EQ(rank_refusal(two, Task{"chief", 0}),
            "INVALID_ARGUMENT: TF_CONFIG: this process is /job:chief/task:0, but the cluster has "
            "no 'chief'; its jobs are worker.");
  EXPECT_EQ(
      rank_refusal(two, Task{"wroker", 0}),
      "INVALID_ARGUMENT: TF_CONFIG: this process's task is of an unknown type 'wroker'; known "
      "are chief, worker, ps, ps_replica, evaluator.");
  EXPECT_THAT(rank_refusal(two, std::nullopt),
              HasSubstr("the cluster has 2 tasks, but nothing says which of them this process is"));
}

TEST(AssignRank, SaysWhatIsWrongWithTheCluster) {
  const Task task{"worker", 0};
  EXPECT_THAT(rank_refusal({{"chief", {"a:1", "b:1"}}}, task),
              HasSubstr("there are 2 tasks 'chief'; only one may be"));
  EXPECT_THAT(rank_refusal({{"worker", {"a:1"}}, {"evaluator", {"b:1", "c:1"}}}, task),
              HasSubstr("there are 2 tasks 'evaluator'; only one may be"));
  EXPECT_THAT(rank_refusal({{"ps", {"a:1"}}}, Task{"ps", 0}), HasSubstr("no task trains"));
  EXPECT_THAT(rank_refusal({{"trainer", {"a:1"}}}, task),
              HasSubstr("the cluster has an unknown type 'trainer'"));
  EXPECT_THAT(rank_refusal({{"master", {"a:1"}}, {"worker", {"b:1"}}}, task),
              HasSubstr("What TensorFlow 1 called 'master' is the chief."));
}

}  // namespace
}  // namespace brigade::cluster
