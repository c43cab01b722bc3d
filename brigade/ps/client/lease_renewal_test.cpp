#include "brigade/ps/client/lease_renewal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace brigade::ps {
namespace {

constexpr std::chrono::seconds kPlenty{30};

TEST(LeaseRenewal, RenewsUntilItIsDestroyed) {
  std::atomic<int> renewals{0};
  std::promise<void> third;
  {
    const LeaseRenewal renewal(
        std::chrono::milliseconds(1),
        [&] {
          if (++renewals == 3) third.set_value();
          return std::chrono::milliseconds(1);
        },
        concurrency::CancelToken());
    ASSERT_EQ(third.get_future().wait_for(kPlenty), std::future_status::ready);
  }
  const int before = renewals;
  std::this_thread::yield();
  EXPECT_EQ(renewals, before);
}

TEST(LeaseRenewal, EndsALongPauseWhenItIsDestroyed) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const LeaseRenewal renewal(
        std::chrono::hours(1), [] { return std::chrono::hours(1); }, concurrency::CancelToken());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPlenty);
}

}  // namespace
}  // namespace brigade::ps
