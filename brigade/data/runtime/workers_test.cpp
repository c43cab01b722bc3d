#include "brigade/data/runtime/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

namespace brigade::data {
namespace {

/// Workers that run until they are stopped, and a record of which run.
class RunningSet {
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
  bool becomes(const std::set<std::size_t>& numbers) {
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

TEST(Workers, StartAndStop) {
  RunningSet running;
  Workers workers("test",
                  [&](const Workers& all, std::size_t number) { running.run(all, number); });
  workers.set_count(2);
  EXPECT_TRUE(running.becomes({0, 1}));
  workers.set_count(5);
  EXPECT_TRUE(running.becomes({0, 1, 2, 3, 4}));
  workers.set_count(1);
  EXPECT_TRUE(running.becomes({0}));
  workers.set_count(4);
  EXPECT_TRUE(running.becomes({0, 1, 2, 3}));
  running.end();
}

TEST(Workers, EachNumberRunsOnceHoweverFastTheCountChanges) {
  RunningSet running;
  Workers workers("test",
                  [&](const Workers& all, std::size_t number) { running.run(all, number); });
  for (int i = 0; i < 200; ++i) workers.set_count(1 + static_cast<std::size_t>(i * 7 % 6));
  workers.set_count(6);
  EXPECT_TRUE(running.becomes({0, 1, 2, 3, 4, 5}));
  workers.set_count(2);
  EXPECT_TRUE(running.becomes({0, 1}));
  EXPECT_FALSE(running.ran_twice());
  running.end();
}

TEST(Workers, AWorkerRequestedWhileItStopsRunsAgain) {
  std::atomic<int> runs{0};  // of number 3
  std::atomic<int> other_runs{0};
  std::atomic<bool> other_has_stopped{false};
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> may_stop{false};
  std::atomic<bool> is_over{false};
  const auto wait_for = [](const auto& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return condition();
  };
  Workers workers("test", [&](const Workers& all, std::size_t number) {
    if (number == 3) ++runs;
    if (number == 4) ++other_runs;
    while (all.should_run(number) && !is_over) std::this_thread::yield();
    if (number == 4) other_has_stopped = true;
    if (number != 3 || is_over) return;
    is_stopping = true;
    wait_for([&] { return may_stop.load(); });
  });
  workers.set_count(8);
  EXPECT_TRUE(wait_for([&] { return runs == 1 && other_runs == 1; }));
  workers.set_count(3);
  EXPECT_TRUE(wait_for([&] { return is_stopping && other_has_stopped; }));
  workers.set_count(4);  // an idle thread tries to take number 3, which is still running
  workers.set_count(5);
  EXPECT_TRUE(wait_for([&] { return other_runs == 2; }));
  may_stop = true;
  EXPECT_TRUE(wait_for([&] { return runs == 2; }));
  is_over = true;
}

}  // namespace
}  // namespace brigade::data
