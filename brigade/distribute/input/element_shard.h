#pragma once

#include <cstdint>

namespace brigade::distribute {

/// Elements from `begin` up to `end`.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// Share `share` of `shares` of a run of elements that several replicas work on at once. Shares
/// follow on one another and are of about one size; each begins a whole number of cache lines (64
/// elements) behind the run's begin, so that no two replicas write into the same line.
constexpr ElementRange element_shard(ElementRange run, int share, int shares) {
  constexpr std::int64_t kAlignment = 64;
  const auto cut = [&](int part) {
    const std::int64_t at = (run.end - run.begin) * part / shares;
    return part == shares ? run.end : run.begin + at / kAlignment * kAlignment;
  };
  return {cut(share), cut(share + 1)};
}

}  // namespace brigade::distribute
