#include "brigade/distribute/optimizer/bucket_size_tuner.h"

#include <algorithm>
#include <cmath>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

std::string text_of(std::int64_t bytes) {
  if (bytes == 0) return "in one bucket, after backward";
  return base::str_cat("in buckets of ", static_cast<double>(bytes) / kMebibyte,
                       " MiB, during backward");
}

}  // namespace

BucketSizeTuner::BucketSizeTuner(std::vector<std::int64_t> sizes, BucketSizeTunerOptions options)
    : sizes_(std::move(sizes)),
      options_(options),
      position_(-options.warm_up_steps),
      seconds_(sizes_.size()),
      is_settled_(sizes_.size() == 1) {
  check_argument(!sizes_.empty(), "BucketSizeTuner: no sizes; give at least one.");
}

std::vector<std::int64_t> BucketSizeTuner::sizes_for(std::int64_t model_bytes) {
  std::vector<std::int64_t> sizes = {0};
  for (const std::int64_t size : {kMebibyte, 4 * kMebibyte, 16 * kMebibyte, 64 * kMebibyte}) {
    if (size < model_bytes) sizes.push_back(size);
  }
  return sizes;
}

std::int64_t BucketSizeTuner::trial_steps() const {
  return static_cast<std::int64_t>(sizes_.size()) * options_.rounds * options_.steps_per_round;
}

std::size_t BucketSizeTuner::tried_at(std::int64_t position) const {
  return static_cast<std::size_t>(position / options_.steps_per_round) % sizes_.size();
}

std::int64_t BucketSizeTuner::bytes_per_pack() const {
  if (is_settled_ || position_ < 0 || is_due()) return sizes_[chosen_];
  return sizes_[tried_at(position_)];
}

void BucketSizeTuner::step_done(Time now) {
  if (is_settled_ || is_due()) return;
  const bool counts = position_ >= 0 && position_ % options_.steps_per_round > 0;
  if (counts)
    seconds_[tried_at(position_)].push_back(std::chrono::duration<double>(now - last_).count());
  last_ = now;
  ++position_;
}

double BucketSizeTuner::median_seconds(std::size_t size) const {
  std::vector<double> sorted = seconds_[size];
  if (sorted.empty()) return 0.0;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::size_t BucketSizeTuner::best() const {
  std::size_t best = 0;
  double least = median_seconds(0) * (1.0 - options_.least_gain);
  for (std::size_t size = 1; size < sizes_.size(); ++size) {
    if (median_seconds(size) >= least) continue;
    best = size;
    least = median_seconds(size);
  }
  return best;
}

void BucketSizeTuner::settle(std::size_t size) {
  check_argument(size < sizes_.size(), "BucketSizeTuner: there is no size ", size, "; there are ",
                 sizes_.size(), ".");
  chosen_ = size;
  is_settled_ = true;
}

std::string BucketSizeTuner::report() const {
  std::vector<std::string> times;
  for (std::size_t size = 0; size < sizes_.size(); ++size)
    times.push_back(
        base::str_cat(std::round(1e5 * median_seconds(size)) / 100, " ms ", text_of(sizes_[size])));
  return base::str_cat("Gradients are reduced ", text_of(sizes_[chosen_]),
                       "; median steps: ", base::join(times, ", "), ".");
}

}  // namespace brigade::distribute
