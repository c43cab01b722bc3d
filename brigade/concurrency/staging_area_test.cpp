#include "brigade/concurrency/staging_area.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brigade/concurrency/testing/waiting.h"

namespace brigade::concurrency {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using namespace testing;  // NOLINT: waiting.h

template <class F>
Error error_from(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

std::size_t length(const std::string& text) {
  return text.size();
}

TEST(StagingArea, KeepsTheOrder) {
  StagingArea<int> area;
  for (int i = 0; i < 5; ++i) area.put(i);
  EXPECT_EQ(area.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(area.get(), i);
  EXPECT_EQ(area.size(), 0u);
}

TEST(StagingArea, TakesElementsThatOnlyMove) {
  StagingArea<std::unique_ptr<int>> area;
  area.put(std::make_unique<int>(7));
  EXPECT_EQ(*area.get(), 7);
}

TEST(StagingArea, PutWaitsWhileItIsFull) {
  StagingArea<int> area({.capacity = 1});
  EXPECT_EQ(area.capacity(), 1u);
  area.put(1);
  auto put = start([&] { area.put(2); });
  EXPECT_TRUE(still_waits(put));
  EXPECT_EQ(area.size(), 1u);
  EXPECT_EQ(area.get(), 1);
  result_of(put);
  EXPECT_EQ(area.get(), 2);
}

TEST(StagingArea, GetWaitsWhileItIsEmpty) {
  StagingArea<int> area;
  auto get = start([&] { return area.get(); });
  EXPECT_TRUE(still_waits(get));
  area.put(3);
  EXPECT_EQ(result_of(get), 3);
}

TEST(StagingArea, PeekWaitsForItsElementAndLeavesIt) {
  StagingArea<int> area;
  area.put(1);
  EXPECT_EQ(area.peek(0), 1);
  auto second = start([&] { return area.peek(1); });
  EXPECT_TRUE(still_waits(second));
  area.put(2);
  EXPECT_EQ(result_of(second), 2);
  EXPECT_EQ(area.size(), 2u);
  EXPECT_EQ(area.get(), 1);
}

TEST(StagingArea, BytesBoundItToo) {
  StagingArea<std::string> area({.memory_limit = 10}, length);
  EXPECT_EQ(area.memory_limit(), 10u);
  area.put("four");
  area.put("sixsix");
  EXPECT_EQ(area.bytes(), 10u);
  auto put = start([&] { area.put("five!"); });
  EXPECT_TRUE(still_waits(put));
  EXPECT_EQ(area.get(), "four");
  EXPECT_TRUE(still_waits(put)) << "4 bytes are no room for 5";
  EXPECT_EQ(area.get(), "sixsix");
  result_of(put);
  EXPECT_EQ(area.bytes(), 5u);
}

TEST(StagingArea, OneElementMayMakeRoomForSeveral) {
  StagingArea<std::string> area({.memory_limit = 10}, length);
  area.put(std::string(10, 'x'));
  auto first = start([&] { area.put("four"); });
  auto second = start([&] { area.put("six..."); });
  EXPECT_TRUE(still_waits(first));
  area.get();
  result_of(first);
  result_of(second);
  EXPECT_EQ(area.size(), 2u);
}

TEST(StagingArea, AnElementLargerThanTheLimitIsAnError) {
  StagingArea<std::string> area({.name = "crops", .memory_limit = 3}, length);
  const Error error = error_from([&] { area.put("four"); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(mentions(error, "crops: an element of 4 bytes")) << error.what();
}

TEST(StagingArea, ALimitOfMemoryNeedsSizes) {
  const Error error =
      error_from([] { StagingArea<std::string>({.name = "crops", .memory_limit = 3}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "crops")) << error.what();
}

TEST(StagingArea, ClearMakesRoom) {
  StagingArea<int> area({.capacity = 2});
  area.put(1);
  area.put(2);
  auto put = start([&] { area.put(3); });
  EXPECT_TRUE(still_waits(put));
  area.clear();
  result_of(put);
  EXPECT_EQ(area.size(), 1u);
  EXPECT_EQ(area.get(), 3);
}

TEST(StagingArea, WaitsEndAtTheirDeadlineAndNameTheArea) {
  StagingArea<int> area({.name = "batches", .capacity = 1});
  const StagingWait soon{.timeout = milliseconds(5)};
  const Error empty = error_from([&] { area.get(soon); });
  EXPECT_EQ(empty.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(mentions(empty, "batches: waited 5 ms for an element")) << empty.what();
  EXPECT_EQ(error_from([&] { area.peek(0, soon); }).code(), ErrorCode::kDeadlineExceeded);
  area.put(1);
  const Error full = error_from([&] { area.put(2, soon); });
  EXPECT_EQ(full.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(mentions(full, "for room")) << full.what();
  EXPECT_EQ(area.get(soon), 1) << "the area stays as it is";
  EXPECT_EQ(area.size(), 0u);
}

TEST(StagingArea, CancelWakesThoseThatWait) {
  StagingArea<int> area({.name = "batches", .capacity = 1});
  const StagingWait wait{.timeout = std::nullopt};
  auto get = start([&] { return error_from([&] { area.get(wait); }).code(); });
  auto peek = start([&] { return error_from([&] { area.peek(0, wait); }).code(); });
  EXPECT_TRUE(still_waits(get));
  wait.cancel.cancel();
  EXPECT_EQ(result_of(get), ErrorCode::kCancelled);
  EXPECT_EQ(result_of(peek), ErrorCode::kCancelled);
  area.put(1);
  const StagingWait other{.timeout = std::nullopt};
  auto put = start([&] { return error_from([&] { area.put(2, other); }); });
  EXPECT_TRUE(still_waits(put));
  other.cancel.cancel();
  const Error error = result_of(put);
  EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(mentions(error, "batches")) << error.what();
  EXPECT_EQ(error_from([&] { area.get(other); }).code(), ErrorCode::kCancelled)
      << "also where nothing needs to be waited for";
  EXPECT_EQ(area.get(), 1);
}

TEST(StagingArea, NoWakeUpIsLostWhenCancelRacesWithTheWait) {
  for (int round = 0; round < 300; ++round) {
    StagingArea<int> area;
    const StagingWait wait{.timeout = std::nullopt};
    auto get = start([&] { return error_from([&] { area.get(wait); }).code(); });
    wait.cancel.cancel();
    ASSERT_EQ(result_of(get), ErrorCode::kCancelled);
  }
}

TEST(StagingArea, DeliversEachElementOnceAmongManyThreads) {
  constexpr int kProducers = 3;
  constexpr int kEach = 500;
  StagingArea<int> area({.capacity = 4, .memory_limit = 20},
                        [](const int&) { return sizeof(int); });
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) area.put(p * kEach + i);
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) sum += area.get();
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr std::int64_t kAll = kProducers * kEach;
  EXPECT_EQ(sum, kAll * (kAll - 1) / 2);
  EXPECT_EQ(area.size(), 0u);
  EXPECT_EQ(area.bytes(), 0u);
}

}  // namespace
}  // namespace brigade::concurrency
