#include "brigade/distribute/input_budget.h"

#include <gtest/gtest.h>

#include <vector>

#include "brigade/data/autotune.h"

namespace brigade::distribute {
namespace {

TEST(InputBudget, IsWhatTheReplicasLeave) {
  EXPECT_EQ(cores_for_input(16, 4, 1), 12);
  EXPECT_EQ(cores_for_input(16, 0, 1), 16);
}

TEST(InputBudget, IsNeverLessThanOneCoreForAllPipelinesTogether) {
  EXPECT_EQ(cores_for_input(2, 2, 1), 1);
  EXPECT_EQ(cores_for_input(2, 8, 4), 0.25);
}

TEST(InputBudget, IsSharedByPipelines) {
  EXPECT_EQ(cores_for_input(16, 4, 4), 3);
}

TEST(InputBudget, CountsReplicasOnCpusAlone) {
  const std::vector<c10::Device> replicas = {c10::Device(c10::kCPU), c10::Device(c10::kCUDA, 0)};
  EXPECT_EQ(tuning_beside(replicas, 1).cpu_budget, cores_for_input(data::usable_cores(), 1, 1));
  EXPECT_FALSE(tuning_beside(replicas, 1).memory_budget.has_value());
}

}  // namespace
}  // namespace brigade::distribute
