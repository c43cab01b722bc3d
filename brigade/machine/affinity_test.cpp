#include "brigade/machine/affinity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/log.h"

namespace brigade::machine {
namespace {

TEST(AffinityScope, PinsTheThreadAndRestoresItsMask) {
  const CoreSet before = thread_affinity();
  ASSERT_FALSE(before.empty());
  const CoreSet last({before.cores().back()});
  {
    const AffinityScope scope(last);
    EXPECT_TRUE(scope.is_pinned());
    EXPECT_EQ(thread_affinity(), last);
  }
  EXPECT_EQ(thread_affinity(), before);
}

TEST(AffinityScope, LeavesOtherThreadsAlone) {
  const CoreSet before = thread_affinity();
  CoreSet other;
  std::thread([&] {
    const AffinityScope scope(CoreSet({before.cores().front()}));
    other = thread_affinity();
  }).join();
  EXPECT_EQ(other.size(), 1U);
  EXPECT_EQ(thread_affinity(), before);
}

TEST(AffinityScope, AsksForNothingWithAnEmptySet) {
  const CoreSet before = thread_affinity();
  const AffinityScope scope{CoreSet()};
  EXPECT_FALSE(scope.is_pinned());
  EXPECT_EQ(thread_affinity(), before);
}

TEST(AffinityScope, ContinuesUnpinnedAndWarnsOnceWhenRefused) {
  std::vector<std::string> said;
  base::set_log_sink([&](base::LogLevel, std::string_view message) { said.emplace_back(message); });
  const CoreSet before = thread_affinity();
  for (int i = 0; i < 2; ++i) {
    const AffinityScope scope(CoreSet({60000}));
    EXPECT_FALSE(scope.is_pinned());
    EXPECT_EQ(thread_affinity(), before);
  }
  base::set_log_sink(nullptr);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("60000"), std::string::npos) << said[0];
}

TEST(ThreadAffinity, OfAnotherThreadIsSetByItsNumber) {
  const CoreSet before = thread_affinity();
  const CoreSet last({before.cores().back()});
  std::atomic<int> number = 0;
  std::atomic<bool> is_moved = false;
  CoreSet of_other;
  std::thread other([&] {
    number = thread_number();
    number.notify_all();
    is_moved.wait(false);
    of_other = thread_affinity();
  });
  number.wait(0);
  EXPECT_TRUE(set_thread_affinity(last, number));
  is_moved = true;
  is_moved.notify_all();
  other.join();
  EXPECT_EQ(of_other, last);
  EXPECT_EQ(thread_affinity(), before);
}

}  // namespace
}  // namespace brigade::machine
