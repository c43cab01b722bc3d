#include "brigade/tuning/tuning_report.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <thread>

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
