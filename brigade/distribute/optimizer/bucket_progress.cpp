#include "brigade/distribute/optimizer/bucket_progress.h"

namespace brigade::distribute {

void BucketProgress::start(const std::vector<std::optional<std::size_t>>& bucket_of,
                           std::size_t num_buckets) {
  if (arrived_.size() != bucket_of.size())
    arrived_ = std::vector<std::atomic<int>>(bucket_of.size());
  if (missing_.size() != num_buckets) missing_ = std::vector<std::atomic<int>>(num_buckets);
  bucket_of_ = bucket_of;
  for (auto& arrived : arrived_) arrived = 0;
  for (auto& missing : missing_) missing = 0;
  for (const auto& bucket : bucket_of_) {
    if (bucket) ++missing_[*bucket];
  }
}

std::optional<std::size_t> BucketProgress::filled(std::size_t variable) {
  const std::size_t bucket = *bucket_of_[variable];
  if (missing_[bucket].fetch_sub(1) > 1) return std::nullopt;
  return bucket;
}

std::vector<bool> BucketProgress::is_filled() const {
  std::vector<bool> is_filled(arrived_.size());
  for (std::size_t i = 0; i < arrived_.size(); ++i) is_filled[i] = arrived_[i] == replicas_;
  return is_filled;
}

}  // namespace brigade::distribute
