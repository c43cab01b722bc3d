#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace brigade::concurrency {

/// The upper bounds of the buckets of a LatencyHistogram; the last bucket has none.
inline constexpr std::array<std::chrono::microseconds, 15> kLatencyBounds = {
    std::chrono::microseconds(100),
    std::chrono::microseconds(250),
    std::chrono::microseconds(500),
    std::chrono::microseconds(1'000),
    std::chrono::microseconds(2'500),
    std::chrono::microseconds(5'000),
    std::chrono::microseconds(10'000),
    std::chrono::microseconds(25'000),
    std::chrono::microseconds(50'000),
    std::chrono::microseconds(100'000),
    std::chrono::microseconds(250'000),
    std::chrono::microseconds(500'000),
    std::chrono::seconds(1),
    std::chrono::seconds(5),
    std::chrono::seconds(30)};

/// What a LatencyHistogram has counted.
struct LatencyCounts {
  /// [i]: those of up to `kLatencyBounds[i]` and more than the bound before it.
  std::array<std::int64_t, kLatencyBounds.size() + 1> buckets = {};
  std::chrono::nanoseconds sum{0};

  std::int64_t total() const {
    std::int64_t count = 0;
    for (const std::int64_t each : buckets) count += each;
    return count;
  }
};

/// Counts how long something took, by powers of ten and what is between. Adding takes no lock.
///
/// Thread-safety: all functions from any thread. Counts that are read while others add may lack the
/// latest.
class LatencyHistogram {
 public:
  void add(std::chrono::nanoseconds time) {
    std::size_t bucket = 0;
    while (bucket < kLatencyBounds.size() && time > kLatencyBounds[bucket]) ++bucket;
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(time.count(), std::memory_order_relaxed);
  }

  LatencyCounts counts() const {
    LatencyCounts counts;
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    counts.sum = std::chrono::nanoseconds(sum_.load(std::memory_order_relaxed));
    return counts;
  }

 private:
  std::array<std::atomic<std::int64_t>, kLatencyBounds.size() + 1> buckets_ = {};
  std::atomic<std::int64_t> sum_{0};  // nanoseconds
};

}  // namespace brigade::concurrency
