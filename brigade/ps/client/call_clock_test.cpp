#include "brigade/ps/client/call_clock.h"

#include <gtest/gtest.h>

namespace brigade::ps {
namespace {

TEST(CallClock, KnowsSinceWhenACallHasBeenInProgress) {
  CallClock clock;
  EXPECT_EQ(clock.in_call_since(), std::nullopt);
  const auto before = std::chrono::steady_clock::now();
  {
    const CallClock::Call call(&clock);
    const auto since = clock.in_call_since();
    ASSERT_TRUE(since);
    EXPECT_GE(*since, before);
    EXPECT_LE(*since, std::chrono::steady_clock::now());
  }
  EXPECT_EQ(clock.in_call_since(), std::nullopt);
}

TEST(CallClock, ACallNeedsNoClock) {
  const CallClock::Call call(nullptr);
}

}  // namespace
}  // namespace brigade::ps
