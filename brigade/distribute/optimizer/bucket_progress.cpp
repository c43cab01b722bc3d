#include "brigade/distribute/optimizer/bucket_progress.h"

namespace brigade::distribute {

void BucketProgress::start(const std::vector<std::optional<std::size_t>>& pack_of,
                         std::size_t packs) {
  if (arrived_.size() != pack_of.size()) arrived_ = std::vector<std::atomic<int>>(pack_of.size());
  if (missing_.size() != packs) missing_ = std::vector<std::atomic<int>>(packs);
  pack_of_ = pack_of;
  for (auto& arrived : arrived_) arrived = 0;
  for (auto& missing : missing_) missing = 0;
  for (const auto& pack : pack_of_) {
    if (pack) ++missing_[*pack];
  }
}

std::optional<std::size_t> BucketProgress::filled(std::size_t variable) {
  const std::size_t pack = *pack_of_[variable];
  if (missing_[pack].fetch_sub(1) > 1) return std::nullopt;
  return pack;
}

std::vector<bool> BucketProgress::is_filled() const {
  std::vector<bool> is_filled(arrived_.size());
  for (std::size_t i = 0; i < arrived_.size(); ++i) is_filled[i] = arrived_[i] == replicas_;
  return is_filled;
}

}  // namespace brigade::distribute
