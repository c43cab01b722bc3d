#include "brigade/cluster/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

// Expected values are those of TensorFlow 2.21's expand_hostlist and expand_tasks_per_node.
TEST(Hostlist, ExpandsAsTensorFlowDoes) {
  EXPECT_THAT(expand_hostlist("n[1-2],m5,o[3-4,6,7-9]"),
              ElementsAre("n1", "n2", "m5", "o3", "o4", "o6", "o7", "o8", "o9"));
  EXPECT_THAT(expand_hostlist("n1"), ElementsAre("n1"));
  EXPECT_THAT(expand_hostlist("n[1]"), ElementsAre("n1"));
  EXPECT_THAT(expand_hostlist("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("a,b-1,c[001-002]"), ElementsAre("a", "b-1", "c001", "c002"));
  EXPECT_THAT(expand_hostlist("[1-3]"), ElementsAre("1", "2", "3"));
}

TEST(Hostlist, ExpandsSeveralBracketsWhichTensorFlowRefuses) {
  EXPECT_THAT(expand_hostlist("r[1-2]n[3-4]x"), ElementsAre("r1n3x", "r1n4x", "r2n3x", "r2n4x"));
}

TEST(Hostlist, SaysWhatIsWrong) {
  const auto why_not = [](const char* list) { return refusal([&] { expand_hostlist(list); }); };
  EXPECT_EQ(why_not("n[1-2"),
            "INVALID_ARGUMENT: The list 'n[1-2' is not one of Slurm's: its brackets do not match.");
  EXPECT_THAT(why_not("n1-2]"), HasSubstr("its brackets do not match"));
  EXPECT_THAT(why_not("n[[1]]"), HasSubstr("its brackets do not match"));
  EXPECT_THAT(why_not(""), HasSubstr("it is empty"));
  EXPECT_THAT(why_not("a,,b"), HasSubstr("a host is empty"));
  EXPECT_THAT(why_not("a,"), HasSubstr("a host is empty"));
  for (const char* range : {"a", "2-1", "-1", "1-2-3", "", "1,"}) {
    EXPECT_THAT(why_not(("n[" + std::string(range) + "]").c_str()), HasSubstr("is no range"))
        << range;
  }
  EXPECT_THAT(why_not("n[0-999999999]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(why_not("a[1-999]b[1-999]"), HasSubstr("more than 65536 hosts"));
}

TEST(Hostlist, CountsTasksAsTensorFlowDoes) {
  EXPECT_THAT(expand_tasks_per_node("3(x2),2,1"), ElementsAre(3, 3, 2, 1));
  EXPECT_THAT(expand_tasks_per_node("1"), ElementsAre(1));
  EXPECT_THAT(expand_tasks_per_node("2(x3)"), ElementsAre(2, 2, 2));
  for (const char* list : {"", "x", "2(x)", "3,", "2(x3", "-1"}) {
    EXPECT_THAT(refusal([&] { expand_tasks_per_node(list); }), HasSubstr("is no count")) << list;
  }
  EXPECT_THAT(refusal([] { expand_tasks_per_node("1(x999999999)"); }),
              HasSubstr("more than 65536"));
}

}  // namespace
}  // namespace brigade::cluster
