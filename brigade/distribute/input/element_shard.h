#pragma once

#include <cstdint>

namespace brigade::distribute {

/// Elements from `begin` up to `end`.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Shard `shard` of `num_shards` of a range of elements, on which several replicas work at the same
/// time. Shards are consecutive and of nearly equal size. Each begins a multiple of 64 elements
/// (whole cache lines) after the range's begin, so that no two replicas write to the same line.
constexpr ElementRange element_shard(ElementRange range, int shard, int num_shards) {
  constexpr std::int64_t kAlignment = 64;
  const auto begin_of = [&](int index) {
    const std::int64_t offset = (range.end - range.begin) * index / num_shards;
    return index == num_shards ? range.end : range.begin + offset / kAlignment * kAlignment;
  };
  return {begin_of(shard), begin_of(shard + 1)};
}

}  // namespace brigade::distribute
