#include "brigade/data/transforms/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests

TEST(Prefetch, KeepsTheDatasetContract) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{2}, std::int64_t{50}, kAutotune}) {
    SCOPED_TRACE(count);
    expect_contract(range(40).prefetch(count), epoch_of(range(40)));
    expect_contract(range(0).prefetch(count), {});
  }
  expect_contract(range(20).prefetch(2).prefetch(3), epoch_of(range(20)));
}

TEST(Prefetch, HoldsNoMoreThanItsCount) {
  auto made = std::make_shared<std::atomic<int>>(0);
  const auto dataset = range(1000).map([made](std::int64_t x) { return ++*made, x; }).prefetch(3);
  auto iterator = dataset.iterator();
  iterator.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (*made < 4 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(*made, 4);  // one received, three waiting
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // time to prefetch too much, if it could
  EXPECT_EQ(*made, 4);
}

TEST(Prefetch, ErrorsAreThrownInOrder) {
  const auto dataset = range(4)
                           .map([](std::int64_t x) {
                             if (x == 2) throw Error(ErrorCode::kDataLoss, "two is broken");
                             return x;
                           })
                           .prefetch(8);
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), 0);
  EXPECT_EQ(iterator.next(), 1);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), 3);
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Prefetch, RefusesBadCounts) {
  expect_invalid_argument([] { range(3).prefetch(0); }, "0 elements to prefetch");
  expect_invalid_argument([] { range(3).prefetch(-2); }, "-2 elements to prefetch");
}

TEST(Prefetch, OfEndlessInputStopsWithTheIterator) {
  auto iterator = range(3).repeat().prefetch(4).iterator();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(iterator.next(), i % 3);
}

TEST(Prefetch, CancellingEndsIt) {
  expect_cancels([](const auto& source) { return source.prefetch(3); });
  expect_cancels([](const auto& source) { return source.prefetch(2).batch(4).prefetch(1); });
}

TEST(Prefetch, ACancelledIteratorKeepsItsPosition) {
  const concurrency::CancelToken token;
  const auto wait_point = std::make_shared<WaitPoint>();
  auto iterator = waiting_range(20, 10, wait_point).prefetch(4).iterator({.cancel = token});
  for (int i = 0; i < 8; ++i) iterator.next();
  EXPECT_TRUE(wait_point->is_reached());
  token.cancel();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  auto resumed = waiting_range(20, -1, wait_point).prefetch(4).iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(resumed.next(), 8);
}

TEST(Prefetch, OfMoreThanMemoryHoldsPrefetchesWhatItCan) {
  EXPECT_EQ(epoch_of(range(3).prefetch(std::int64_t{1} << 62)), epoch_of(range(3)));
}

}  // namespace
}  // namespace brigade::data
