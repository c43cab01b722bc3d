#include "brigade/tuning/tuning_report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "brigade/tuning/freed_memory.h"
#include "brigade/tuning/testing/refaults.h"

extern "C" int fake_mkl_asks();

namespace brigade::tuning {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(Tuning, ReportsItselfInAProgramThatLinksIt) {
  EXPECT_TRUE(report().allocator);
  EXPECT_NE(report().allocator_name, "");
  EXPECT_TRUE(report().math_dispatch);
}

TEST(Tuning, OverridesTheMathLibrarysCheck) {
  EXPECT_EQ(fake_mkl_asks(), 1);
}

TEST(Tuning, KeepsFreedMemoryOnTheMainThread) {
  EXPECT_LT(testing::refaults(40 * kMebibyte), 64);
  EXPECT_LT(testing::refaults(kMebibyte), 64);
}

TEST(Tuning, KeepsFreedMemoryOnOtherThreads) {
  long small = -1;
  std::thread([&] { small = testing::refaults(8 * kMebibyte); }).join();
  EXPECT_LT(small, 64);
}

// glibc maps blocks that do not fit into a thread's heap of 64 MiB, and unmaps them again; no
// setting changes that.
TEST(Tuning, KeepsVeryLargeBlocksOnOtherThreadsWithJemalloc) {
  if (report().allocator_name != "jemalloc")
    GTEST_SKIP() << "built with " << report().allocator_name;
  long large = -1;
  std::thread([&] { large = testing::refaults(100 * kMebibyte); }).join();
  EXPECT_LT(large, 64);
}

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

/// Whether memory that is freed leaves the process within ten seconds.
bool is_returned(std::size_t bytes) {
  testing::refaults(bytes);
  const std::size_t most = resident_bytes();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (resident_bytes() > most - bytes / 2) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    testing::refaults(bytes / 4);  // jemalloc looks at its clock when large blocks are used
  }
  return true;
}

// In processes of their own, since it is for the rest of a process.
TEST(FreedMemory, IsReturnedOnRequest) {
  const auto is_returned_after_request = [] {
    return_freed_memory();
    std::_Exit(is_returned(48 * kMebibyte) ? 0 : 1);
  };
  EXPECT_EXIT(is_returned_after_request(), ::testing::ExitedWithCode(0), "");
}

TEST(TuningReport, DescribesTheActiveParts) {
  const TuningReport both{.allocator = true, .allocator_name = "glibc", .math_dispatch = true};
  const TuningReport memory{
      .allocator = true, .allocator_name = "jemalloc", .math_dispatch = false};
  const TuningReport dispatch{.allocator = false, .allocator_name = "", .math_dispatch = true};
  EXPECT_EQ(both.describe(), "allocator (glibc) and math dispatch");
  EXPECT_EQ(memory.describe(), "allocator (jemalloc)");
  EXPECT_EQ(dispatch.describe(), "math dispatch");
  EXPECT_EQ(TuningReport().describe(), "none");
}

}  // namespace
}  // namespace brigade::tuning
