#include "brigade/distribute/update_staleness.h"

namespace brigade::distribute {

std::int64_t UpdateStaleness::total() const {
  std::int64_t total = 0;
  for (const auto& [staleness, count] : updates) total += count;
  return total;
}

double UpdateStaleness::mean() const {
  double sum = 0;
  for (const auto& [staleness, count] : updates)
    sum += static_cast<double>(staleness) * static_cast<double>(count);
  return updates.empty() ? 0 : sum / static_cast<double>(total());
}

std::int64_t UpdateStaleness::max() const {
  return updates.empty() ? 0 : updates.rbegin()->first;
}

UpdateStaleness UpdateStaleness::since(const UpdateStaleness& earlier) const {
  UpdateStaleness later;
  for (const auto& [staleness, count] : updates) {
    const auto before = earlier.updates.find(staleness);
    const std::int64_t counted = before == earlier.updates.end() ? 0 : before->second;
    if (count > counted) later.updates[staleness] = count - counted;
  }
  return later;
}

}  // namespace brigade::distribute
