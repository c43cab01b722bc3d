#include "brigade/data/runtime/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

namespace brigade::data {
namespace {

/// Runs until it is one too many, or all is over; knows who runs.
class Crowd {
 public:
  void run(const Workers& workers, std::size_t number) {
    {
      const std::scoped_lock lock(mutex_);
      twice_ |= !running_.insert(number).second;
    }
    while (workers.should_run(number) && !is_over_) std::this_thread::yield();
    const std::scoped_lock lock(mutex_);
    running_.erase(number);
  }
  bool comes_to(const std::set<std::size_t>& numbers) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      {
        const std::scoped_lock lock(mutex_);
        if (running_ == numbers) return true;
      }
      std::this_thread::yield();
    }
    return false;
  }
  void end() { is_over_ = true; }
  bool ran_twice() {
    const std::scoped_lock lock(mutex_);
    return twice_;
  }

 private:
  std::mutex mutex_;  // guards the two below
  std::set<std::size_t> running_;
  bool twice_ = false;
  std::atomic<bool> is_over_{false};
};

TEST(Workers, ComeAndGo) {
  Crowd crowd;
  Workers workers("test", [&](const Workers& all, std::size_t number) { crowd.run(all, number); });
  workers.set_count(2);
  EXPECT_TRUE(crowd.comes_to({0, 1}));
  workers.set_count(5);
  EXPECT_TRUE(crowd.comes_to({0, 1, 2, 3, 4}));
  workers.set_count(1);
  EXPECT_TRUE(crowd.comes_to({0}));
  workers.set_count(4);
  EXPECT_TRUE(crowd.comes_to({0, 1, 2, 3}));
  crowd.end();
}

TEST(Workers, NumbersAreTakenOnceHoweverFastTheCountSwings) {
  Crowd crowd;
  Workers workers("test", [&](const Workers& all, std::size_t number) { crowd.run(all, number); });
  for (int i = 0; i < 200; ++i) workers.set_count(1 + static_cast<std::size_t>(i * 7 % 6));
  workers.set_count(6);
  EXPECT_TRUE(crowd.comes_to({0, 1, 2, 3, 4, 5}));
  workers.set_count(2);
  EXPECT_TRUE(crowd.comes_to({0, 1}));
  EXPECT_FALSE(crowd.ran_twice());
  crowd.end();
}

TEST(Workers, WhoIsWantedAgainWhileLeavingBeginsAgain) {
  std::atomic<int> runs{0};  // of number 3
  std::atomic<int> runs_beside{0};
  std::atomic<bool> has_left_beside{false};
  std::atomic<bool> is_leaving{false};
  std::atomic<bool> may_leave{false};
  std::atomic<bool> is_over{false};
  const auto wait_for = [](const auto& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return condition();
  };
  Workers workers("test", [&](const Workers& all, std::size_t number) {
    if (number == 3) ++runs;
    if (number == 4) ++runs_beside;
    while (all.should_run(number) && !is_over) std::this_thread::yield();
    if (number == 4) has_left_beside = true;
    if (number != 3 || is_over) return;
    is_leaving = true;
    wait_for([&] { return may_leave.load(); });
  });
  workers.set_count(8);
  EXPECT_TRUE(wait_for([&] { return runs == 1 && runs_beside == 1; }));
  workers.set_count(3);
  EXPECT_TRUE(wait_for([&] { return is_leaving && has_left_beside; }));
  workers.set_count(4);  // an idle thread comes for number 3 and finds it taken
  workers.set_count(5);
  EXPECT_TRUE(wait_for([&] { return runs_beside == 2; }));
  may_leave = true;
  EXPECT_TRUE(wait_for([&] { return runs == 2; }));
  is_over = true;
}

}  // namespace
}  // namespace brigade::data
