#include "brigade/device/arithmetic_fingerprint.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

namespace brigade::device {
namespace {

TEST(ArithmeticFingerprint, IsTheSameEachTimeAndInEachThread) {
  const std::string first = arithmetic_fingerprint();
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos) << first;
  EXPECT_EQ(arithmetic_fingerprint(), first);
  std::string other;
  std::thread([&] { other = arithmetic_fingerprint(); }).join();
  EXPECT_EQ(other, first);
}

TEST(ArithmeticFingerprint, RestoresTheNumberOfThreads) {
  const int before = at::get_num_threads();
  arithmetic_fingerprint(before + 1);
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace brigade::device
