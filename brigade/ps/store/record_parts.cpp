#include "brigade/ps/store/record_parts.h"

#include <algorithm>

namespace brigade::ps {

std::vector<RecordPart> divide_by_bytes(std::span<const std::uint64_t> bytes, std::uint64_t limit) {
  std::vector<RecordPart> parts = {{}};
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool fits = bytes[i] <= limit && used <= limit - bytes[i];
    if (!fits && parts.back().end > parts.back().begin) {
      parts.push_back({.begin = i, .end = i});
      used = 0;
    }
    parts.back().end = i + 1;
    used += bytes[i];
  }
  return parts;
}

std::uint64_t part_bytes(std::uint64_t max_record_bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  return std::min(kMost, max_record_bytes / 2);
}

}  // namespace brigade::ps
