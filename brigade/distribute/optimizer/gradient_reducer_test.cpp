#include "brigade/distribute/optimizer/gradient_reducer.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

using Buckets = std::vector<std::size_t>;

/// Whether the reducer reduces `count` buckets before a deadline.
bool reduces(const GradientReducer& reducer, std::size_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (reducer.reduced() < count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(GradientReducer, ReducesBucketsInTheirOrderWheneverTheyAreReady) {
  Buckets order;
  GradientReducer reducer([&](std::size_t bucket) { order.push_back(bucket); });
  for (int step = 0; step < 50; ++step) {
    order.clear();
    reducer.start(4);
    for (const std::size_t bucket : {2, 0, 3, 1}) reducer.ready(bucket);
    ASSERT_TRUE(reduces(reducer, 4));
    EXPECT_EQ(reducer.stop(), 4u);
    EXPECT_EQ(order, (Buckets{0, 1, 2, 3}));
  }
}

TEST(GradientReducer, StopReturnsHowManyAreReduced) {
  Buckets order;
  GradientReducer reducer([&](std::size_t bucket) { order.push_back(bucket); });
  reducer.start(4);
  reducer.ready(0);
  reducer.ready(2);
  ASSERT_TRUE(reduces(reducer, 1));
  EXPECT_EQ(reducer.stop(), 1u);
  reducer.ready(1);
  EXPECT_EQ(reducer.stop(), 1u);
  EXPECT_EQ(order, Buckets{0});
}

TEST(GradientReducer, StopWaitsForTheRunningBucketAndStartsNoOther) {
  std::promise<void> begun, may_end;
  std::atomic<int> ended = 0;
  GradientReducer reducer([&](std::size_t) {
    begun.set_value();
    may_end.get_future().wait();
    ++ended;
  });
  reducer.start(2);
  reducer.ready(0);
  begun.get_future().wait();
  std::thread stops([&] {
    EXPECT_EQ(reducer.stop(), 1u);
    EXPECT_EQ(ended, 1);
  });
  may_end.set_value();
  stops.join();
  reducer.ready(1);
  EXPECT_EQ(reducer.stop(), 1u);
}

TEST(GradientReducer, AnErrorEndsTheStepAndIsThrownByStop) {
  bool fails = true;
  Buckets order;
  std::promise<void> has_failed;
  GradientReducer reducer([&](std::size_t bucket) {
    if (fails && bucket == 1) {
      has_failed.set_value();
      throw Error(ErrorCode::kUnavailable, "worker 1 is gone");
    }
    order.push_back(bucket);
  });
  reducer.start(3);
  for (const std::size_t bucket : {1, 2, 0}) reducer.ready(bucket);
  has_failed.get_future().wait();
  for (int i = 0; i < 2; ++i) {
    const Error error = error_from([&] { reducer.stop(); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(mentions(error, "worker 1 is gone"));
  }
  EXPECT_EQ(order, Buckets{0});
  fails = false;
  reducer.start(2);
  reducer.ready(0);
  reducer.ready(1);
  EXPECT_TRUE(reduces(reducer, 2));
}

TEST(GradientReducer, EndsWithBucketsThatAreNotReady) {
  GradientReducer reducer([](std::size_t) {});
  reducer.start(2);
  reducer.ready(1);
}

TEST(GradientReducer, ItsThreadIsSingleThreadedAndChangesNoOthers) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  int inside = 0;
  {
    GradientReducer reducer([&](std::size_t) { inside = at::get_num_threads(); });
    reducer.start(1);
    reducer.ready(0);
    EXPECT_TRUE(reduces(reducer, 1));
  }
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  int later = 0;
  std::thread([&] { later = at::get_num_threads(); }).join();
  EXPECT_EQ(later, 3);
  at::set_num_threads(before);
}

TEST(GradientReducer, AnInvalidBucketIsRefused) {
  GradientReducer reducer([](std::size_t) {});
  reducer.start(2);
  EXPECT_THROW(reducer.ready(2), Error);
}

}  // namespace
}  // namespace brigade::distribute
