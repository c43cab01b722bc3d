#include "brigade/distribute/input/distributed_input.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "brigade/data/runtime/autotune.h"
#include "brigade/machine/cgroup.h"

namespace brigade::distribute {
namespace {

TEST(InputBudget, IsTheCoresThatReplicasDoNotUse) {
  EXPECT_EQ(cores_for_input(16, 4, 1), 12);
  EXPECT_EQ(cores_for_input(16, 0, 1), 16);
}

TEST(InputBudget, IsNeverLessThanOneCoreForAllPipelinesTogether) {
  EXPECT_EQ(cores_for_input(2, 2, 1), 1);
  EXPECT_EQ(cores_for_input(2, 8, 4), 0.25);
}

TEST(InputBudget, IsDividedAmongPipelines) {
  EXPECT_EQ(cores_for_input(16, 4, 4), 3);
}

TEST(InputBudget, CountsOnlyReplicasOnCpus) {
  const std::vector<c10::Device> replicas = {c10::Device(c10::kCPU), c10::Device(c10::kCUDA, 0)};
  const auto cores = static_cast<double>(data::usable_cores());
  const double allowed = std::min(cores, machine::cgroup_cpu_limit().value_or(cores));
  EXPECT_EQ(input_tuning(replicas, 1).cpu_budget, cores_for_input(allowed, 1, 1));
  EXPECT_FALSE(input_tuning(replicas, 1).memory_budget.has_value());
}

TEST(InputBudget, RespectsTheLimitOfAContainer) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "brigade_budget_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path root = pattern;
  fs::create_directories(root / "proc/self");
  fs::create_directories(root / "sys/fs/cgroup");
  std::ofstream(root / "proc/self/cgroup") << "0::/\n";
  const std::vector<c10::Device> on_gpu = {c10::Device(c10::kCUDA, 0)};
  // A limit a quarter of a core below the machine's cores, then one above: the smaller counts.
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  std::ofstream(root / "sys/fs/cgroup/cpu.max") << (cores * 100 - 25) * 1'000 << " 100000\n";
  EXPECT_EQ(input_tuning(on_gpu, 1, root).cpu_budget,
            std::max(1.0, static_cast<double>(cores) - 0.25));
  std::ofstream(root / "sys/fs/cgroup/cpu.max") << (cores + 3) * 100'000 << " 100000\n";
  EXPECT_EQ(input_tuning(on_gpu, 1, root).cpu_budget, static_cast<double>(cores));
  fs::remove_all(root);
}

}  // namespace
}  // namespace brigade::distribute
