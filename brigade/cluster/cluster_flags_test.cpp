#include "brigade/cluster/cluster_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::HasSubstr;
using testing::refusal;

TEST(ClusterFlag, ReadsJobsAndAddresses) {
  EXPECT_EQ(parse_cluster_flag("worker=a:1, b:1;chief=[::1]:2").to_json(),
            R"({"chief":["[::1]:2"],"worker":["a:1","b:1"]})");
}

TEST(ClusterFlag, SaysWhichPartIsWrong) {
  const auto why_not = [](const char* text) { return refusal([&] { parse_cluster_flag(text); }); };
  EXPECT_EQ(why_not("worker=a:1;b:1"),
            "INVALID_ARGUMENT: 'b:1' in the cluster 'worker=a:1;b:1' is not job=addresses; write a "
            "cluster as chief=a:2222;worker=b:2222,c:2222.");
  EXPECT_THAT(why_not("=a:1"), HasSubstr("is not job=addresses"));
  EXPECT_THAT(why_not("worker=a:1;worker=b:1"), HasSubstr("has the job 'worker' twice"));
  EXPECT_THAT(why_not("worker="), HasSubstr("'' is not an address"));
  EXPECT_THAT(why_not("worker=a:1,a:1"), HasSubstr("have the same address"));
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
