#include "brigade/data/runtime/chunk_sizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace brigade::data {
namespace {

using Clock = ChunkSizer::Clock;

constexpr std::size_t kMaxChunk = 16;

void run_chunk(ChunkSizer& sizer, const std::function<void()>& work) {
  sizer.start(Clock::now());
  work();
  sizer.finish(Clock::now());
}

void nothing() {}

void wait_for_20_ms() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::milliseconds(20), [] { return false; });
}

/// A chunk without work, during which another thread uses the core for a while.
void run_interrupted_chunk(ChunkSizer& sizer) {
  const Clock::time_point now = Clock::now();
  sizer.start(now);
  sizer.finish(now + std::chrono::milliseconds(4));
}

TEST(ChunkSizer, GrowsWhileWorkIsCheap) {
  ChunkSizer sizer(kMaxChunk);
  EXPECT_EQ(sizer.size(), 1U);
  for (int i = 0; i < 50; ++i) run_chunk(sizer, nothing);
  EXPECT_EQ(sizer.size(), kMaxChunk);
}

TEST(ChunkSizer, StaysLargeIfPreemptedInEveryChunk) {
  ChunkSizer sizer(kMaxChunk);
  for (int i = 0; i < 50; ++i) run_chunk(sizer, nothing);
  for (int i = 0; i < 50; ++i) {
    run_interrupted_chunk(sizer);
    EXPECT_GE(sizer.size(), kMaxChunk / 2);
  }
}

TEST(ChunkSizer, GrowsIfPreemptedInEveryChunk) {
  ChunkSizer sizer(kMaxChunk);
  for (int i = 0; i < 50; ++i) run_interrupted_chunk(sizer);
  EXPECT_EQ(sizer.size(), kMaxChunk);
}

TEST(ChunkSizer, ShrinksIfElementsWait) {
  ChunkSizer sizer(kMaxChunk);
  for (int i = 0; i < 50; ++i) run_chunk(sizer, nothing);
  for (int i = 0; i < 5; ++i) run_chunk(sizer, wait_for_20_ms);
  EXPECT_EQ(sizer.size(), 1U);
}

}  // namespace
}  // namespace brigade::data
