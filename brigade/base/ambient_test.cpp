#include "brigade/base/ambient.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace brigade::base {
namespace {

constexpr AmbientSlot<int> kNumber{AmbientIndex::kReplica};
constexpr AmbientSlot<double> kReal{AmbientIndex::kStore};

TEST(AmbientSlot, IsEmptyAtFirst) {
  EXPECT_EQ(kNumber.get(), nullptr);
}

TEST(AmbientScope, RestoresTheFormerValue) {
  int outer = 1;
  int inner = 2;
  {
    const AmbientScope<int> outer_scope(kNumber, &outer);
    EXPECT_EQ(kNumber.get(), &outer);
    {
      const AmbientScope<int> inner_scope(kNumber, &inner);
      EXPECT_EQ(kNumber.get(), &inner);
    }
    EXPECT_EQ(kNumber.get(), &outer);
  }
  EXPECT_EQ(kNumber.get(), nullptr);
}

TEST(AmbientScope, HidesTheOuterValueWithNull) {
  int outer = 1;
  const AmbientScope<int> scope(kNumber, &outer);
  const AmbientScope<int> hidden(kNumber, nullptr);
  EXPECT_EQ(kNumber.get(), nullptr);
}

TEST(AmbientScope, EndsWithAnException) {
  int value = 1;
  try {
    const AmbientScope<int> scope(kNumber, &value);
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(kNumber.get(), nullptr);
}

TEST(AmbientScope, LeavesOtherSlotsAlone) {
  int number = 1;
  double real = 2;
  const AmbientScope<int> number_scope(kNumber, &number);
  const AmbientScope<double> real_scope(kReal, &real);
  EXPECT_EQ(kNumber.get(), &number);
  EXPECT_EQ(kReal.get(), &real);
}

TEST(Ambient, IsEmptyInANewThread) {
  int value = 1;
  const AmbientScope<int> scope(kNumber, &value);
  int* seen = &value;
  std::thread([&] { seen = kNumber.get(); }).join();
  EXPECT_EQ(seen, nullptr);
}

TEST(AmbientInstall, BringsTheCallersContextIntoAThread) {
  int value = 1;
  int other = 2;
  const AmbientScope<int> scope(kNumber, &value);
  const Ambient callers = ambient();
  int* inside = nullptr;
  int* after = &value;
  std::thread([&] {
    {
      const AmbientInstall install(callers);
      inside = kNumber.get();
      const AmbientScope<int> own(kNumber, &other);
    }
    after = kNumber.get();
  }).join();
  EXPECT_EQ(inside, &value);
  EXPECT_EQ(after, nullptr);
  EXPECT_EQ(kNumber.get(), &value);
}

}  // namespace
}  // namespace brigade::base
