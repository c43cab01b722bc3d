#include "brigade/data/transforms/sample_from_datasets.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/transform.h"

namespace brigade::data::internal {

RandomSelector::RandomSelector(std::uint64_t key, std::vector<double> weights)
    : rng_(key), weights_(std::move(weights)) {}

std::optional<std::uint64_t> RandomSelector::select(const std::vector<bool>& is_empty) {
  if (is_empty != is_empty_) add_up(is_empty);
  const double drawn = rng_.uniform() * sums_.back();
  const auto chosen = std::upper_bound(sums_.begin(), sums_.end(), drawn);
  if (chosen != sums_.end()) return static_cast<std::uint64_t>(chosen - sums_.begin());
  // The product may round up to the sum: then it is the last input with a positive weight.
  const auto last = std::lower_bound(sums_.begin(), sums_.end(), sums_.back());
  return static_cast<std::uint64_t>(last - sums_.begin());
}

void RandomSelector::add_up(const std::vector<bool>& is_empty) {
  is_empty_ = is_empty;
  sums_.assign(weights_.size(), 0);
  double sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!is_empty[i]) sum += weights_[i];
    sums_[i] = sum;
  }
}

io::StateTree RandomSelector::save() const {
  return make_position("sample", {{"key", rng_.key()}, {"drawn", rng_.position()}});
}

void RandomSelector::restore(const io::StateTree& state) {
  check_position(state, "sample");
  check_argument(position_number(state, "key") == rng_.key(),
                 "The position was saved in a sample_from_datasets with another seed or another "
                 "position in the pipeline: restore it into the dataset that it was saved from");
  rng_.set_position(position_number(state, "drawn"));
}

std::vector<double> weights_for(std::vector<double> weights, std::size_t datasets) {
  if (weights.empty()) weights.assign(datasets, 1.0);
  check_argument(weights.size() == datasets, "sample_from_datasets: ", weights.size(),
                 " weights for ", datasets, " datasets; there must be one for each, or none");
  for (const double weight : weights) {
    check_argument(std::isfinite(weight) && weight >= 0, "sample_from_datasets: a weight is ",
                   weight, "; weights must be finite, and 0 or more");
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  check_argument(std::isfinite(sum) && sum > 0, "sample_from_datasets: the weights add up to ", sum,
                 "; one must be more than 0");
  return weights;
}

SelectionSpec spec_of_sample(std::vector<double> weights, const SampleOptions& options) {
  InputLabels labels;
  for (const double weight : weights) labels.push_back(base::str_cat(weight, " of "));
  const bool stops = options.when_empty == WhenEmpty::kStop;
  return {
      .name = "sample_from_datasets",
      .when_empty = options.when_empty,
      .make_selector =
          [weights = std::move(weights), options](const IteratorOptions& job, std::uint64_t depth) {
            const std::uint64_t epoch = options.rerandomize_each_iteration ? job.epoch : 0;
            return std::make_unique<RandomSelector>(
                key_of_stream("sample", options.seed, job, depth, epoch), weights);
          },
      .cardinality =
          [stops](const std::vector<std::int64_t>& inputs) {
            if (inputs.size() == 1) return inputs.front();
            const bool never_ends = stops ? all_endless(inputs) : has_endless(inputs);
            return never_ends ? kInfinite : kUnknown;
          },
      .labels = std::move(labels),
      // An exhausted dataset that ends the iteration does so at another index in each shard.
      .counts_elements = stops};
}

}  // namespace brigade::data::internal
