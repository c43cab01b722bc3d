#include "brigade/data/runtime/autotune.h"

#include <gtest/gtest.h>

namespace brigade::data {
namespace {

TEST(Autotune, StaysWithinItsBounds) {
  EXPECT_GE(threads_for(kAutotune, "map"), 1U);
  EXPECT_LE(threads_for(kAutotune, "map"), 16U);
  EXPECT_GE(depth_for(kAutotune, "prefetch"), 2U);
  EXPECT_LE(depth_for(kAutotune, "prefetch"), 8U);
}

TEST(Autotune, KeepsGivenNumbers) {
  EXPECT_EQ(threads_for(7, "map"), 7U);
  EXPECT_EQ(depth_for(100, "prefetch"), 100U);
}

}  // namespace
}  // namespace brigade::data
