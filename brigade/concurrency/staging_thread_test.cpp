#include "brigade/concurrency/staging_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "brigade/concurrency/signal.h"

namespace brigade::concurrency {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Counts up to `end`, and tells how far it is.
struct Counter {
  int end = 0;
  int next = 0;
  Signal made;

  std::optional<int> operator()() {
    if (next == end) return std::nullopt;
    made.raise();
    return next++;
  }
};

StagingThread<int>::Make calls(Counter& counter) {
  return [&counter] { return counter(); };
}

TEST(StagingThread, GivesWhatWasMadeInOrderAndThenNothing) {
  for (const std::size_t depth : {1, 2, 100}) {
    Counter counter{.end = 20};
    StagingThread<int> staging({.depth = depth}, calls(counter));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(staging.next(), i);
    EXPECT_EQ(staging.next(), std::nullopt);
    EXPECT_EQ(staging.next(), std::nullopt);
  }
}

TEST(StagingThread, WorksAheadAndNoFurther) {
  Counter counter{.end = 100};
  StagingThread<int> staging({.depth = 2}, calls(counter));
  EXPECT_TRUE(counter.made.wait_for(3, microseconds(0), seconds(30))) << "two staged, one in hand";
  EXPECT_FALSE(counter.made.wait_for(4, microseconds(0), milliseconds(20)));
  EXPECT_EQ(staging.next(), 0);
  EXPECT_TRUE(counter.made.wait_for(4, microseconds(0), seconds(30)));
  EXPECT_FALSE(counter.made.wait_for(5, microseconds(0), milliseconds(20)));
}

TEST(StagingThread, WorksOnAnotherThread) {
  StagingThread<std::thread::id> staging({}, [] { return std::this_thread::get_id(); });
  EXPECT_NE(staging.next(), std::this_thread::get_id());
}

TEST(StagingThread, AnErrorComesAfterTheElementsMadeBefore) {
  Counter counter{.end = 3};
  StagingThread<int> staging({.depth = 10}, [&]() -> std::optional<int> {
    if (const auto next = counter()) return next;
    throw std::runtime_error("broken");
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(staging.next(), i);
  EXPECT_THROW(staging.next(), std::runtime_error);
  EXPECT_EQ(staging.next(), std::nullopt);
}

/// What `next` will return: the element, 0 for nothing or an error; unset if it would wait.
std::optional<int> seen_in(const StagingThread<int>& staging) {
  std::optional<int> seen;
  const bool is_there = staging.look_at_next([&](const int* next) { seen = next ? *next : 0; });
  EXPECT_EQ(is_there, seen.has_value());
  return seen;
}

TEST(StagingThread, ShowsTheNextElementWithoutWaitingOrTakingIt) {
  Signal allowed;
  Counter counter{.end = 3, .next = 1};
  StagingThread<int> staging({.depth = 1}, [&]() -> std::optional<int> {
    if (counter.next == 2) EXPECT_TRUE(allowed.wait_for(1, microseconds(0), seconds(30)));
    return counter();
  });
  EXPECT_EQ(staging.next(), 1);
  EXPECT_EQ(seen_in(staging), std::nullopt) << "the second is not there yet";
  allowed.raise();
  std::optional<int> seen;
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (!(seen = seen_in(staging)) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(seen_in(staging), 2);
  EXPECT_EQ(staging.next(), 2);
  EXPECT_EQ(staging.next(), std::nullopt);
  EXPECT_EQ(seen_in(staging), 0) << "the end";
}

TEST(StagingThread, ShowsThatTheNextElementIsAnError) {
  StagingThread<int> staging({.depth = 1},
                             []() -> std::optional<int> { throw std::runtime_error("broken"); });
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  std::optional<int> seen;
  while (!(seen = seen_in(staging)) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(seen, 0);
  EXPECT_THROW(staging.next(), std::runtime_error);
  EXPECT_EQ(seen_in(staging), 0);
}

TEST(StagingThread, TakesElementsThatOnlyMove) {
  StagingThread<std::unique_ptr<int>> staging({}, [] { return std::make_unique<int>(4); });
  EXPECT_EQ(**staging.next(), 4);
}

TEST(StagingThread, EndsWhileWorking) {
  std::atomic<int> alive{0};
  struct Held {
    explicit Held(std::atomic<int>& count) : count_(&count) { ++count; }
    ~Held() { --*count_; }
    std::atomic<int>* count_;
  };
  {
    Signal made;
    StagingThread<std::shared_ptr<Held>> staging({.depth = 3}, [&] {
      made.raise();
      return std::make_shared<Held>(alive);
    });
    staging.next();
    ASSERT_TRUE(made.wait_for(4, microseconds(0), seconds(30)));
  }
  EXPECT_EQ(alive, 0) << "what was staged is gone, and nobody makes more";
}

TEST(StagingThread, RefusesADepthOfNothing) {
  Counter counter;
  EXPECT_THROW(StagingThread<int>({.depth = 0}, calls(counter)), Error);
}

}  // namespace
}  // namespace brigade::concurrency
