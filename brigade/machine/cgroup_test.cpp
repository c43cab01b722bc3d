#include "brigade/machine/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace brigade::machine {
namespace {

namespace fs = std::filesystem;

// A tree of files that replaces /proc and /sys.
class CgroupLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "brigade_cgroup_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

TEST_F(CgroupLimit, IsUnsetWithoutControlGroups) {
  EXPECT_FALSE(cgroup_cpu_limit(root_).has_value());
}

TEST_F(CgroupLimit, ReadsVersion2AndTakesTheTightestUpwards) {
  write("proc/self/cgroup", "0::/pods/one\n");
  write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_).has_value());
  write("sys/fs/cgroup/pods/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 1.5);
  write("sys/fs/cgroup/pods/one/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 1.5);
}

TEST_F(CgroupLimit, ReadsVersion2AtTheRootOfAContainer) {
  write("proc/self/cgroup", "0::/../../outside\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 2.0);
}

TEST_F(CgroupLimit, ReadsVersion1) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a\n2:cpu,cpuacct:/a\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_).has_value());
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 3.0);
}

TEST_F(CgroupLimit, IgnoresBrokenFiles) {
  write("proc/self/cgroup", "nonsense\n0::/\n2:cpu:\n");
  write("sys/fs/cgroup/cpu.max", "lots\n");
  EXPECT_FALSE(cgroup_cpu_limit(root_).has_value());
}

}  // namespace
}  // namespace brigade::machine
