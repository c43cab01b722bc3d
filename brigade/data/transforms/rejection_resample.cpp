#include "brigade/data/transforms/rejection_resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/random.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

constexpr const char* kCounts = "counts";
/// The initial count of each class, so that the first few elements do not dominate; as in
/// TensorFlow.
constexpr std::uint64_t kSeenBefore = 10;

void check_probabilities(const std::vector<double>& probabilities, std::string_view name) {
  double sum = 0;
  for (const double probability : probabilities) {
    check_argument(std::isfinite(probability) && probability >= 0, "rejection_resample: ", name,
                   " has the probability ", probability,
                   "; probabilities must be numbers from 0 to 1");
    sum += probability;
  }
  constexpr double kTolerance = 1e-3;  // for probabilities written with three digits
  check_argument(std::abs(sum - 1) <= kTolerance, "rejection_resample: the probabilities of ", name,
                 " add up to ", sum, "; they must add up to 1");
}

std::string text_of_resample(const std::vector<double>& probabilities) {
  return base::str_cat("[", base::join(probabilities, ", "), "]");
}

}  // namespace

std::vector<double> acceptance_for(const std::vector<double>& initial,
                                   const std::vector<double>& target) {
  std::vector<double> ratios(target.size());
  for (std::size_t c = 0; c < ratios.size(); ++c) {
    ratios[c] = target[c] == 0 ? 0 : target[c] / initial[c];
  }
  const double most = *std::max_element(ratios.begin(), ratios.end());
  for (double& ratio : ratios) ratio /= most;
  return ratios;
}

ResampleTarget checked_resample(std::vector<double> target, std::vector<double> initial) {
  check_probabilities(target, "target_dist");
  if (initial.empty()) return {.initial = {}, .target = std::move(target)};
  check_probabilities(initial, "initial_dist");
  check_argument(initial.size() == target.size(), "rejection_resample: target_dist has ",
                 target.size(), " classes and initial_dist ", initial.size(),
                 "; give both for the same");
  for (std::size_t c = 0; c < target.size(); ++c) {
    check_argument(target[c] == 0 || initial[c] > 0,
                   "rejection_resample: target_dist is positive for class ", c,
                   ", whose initial_dist is 0");
  }
  return {.initial = std::move(initial), .target = std::move(target)};
}

bool keeps_all(const ResampleTarget& target) {
  const auto& probabilities = target.initial;
  return probabilities == target.target &&
         std::find(probabilities.begin(), probabilities.end(), 0) == probabilities.end();
}

std::string name_of_resample(const ResampleTarget& target, const ResampleOptions& options) {
  const std::string from =
      target.initial.empty() ? "" : base::str_cat(" from ", text_of_resample(target.initial));
  const std::string seed = options.seed ? base::str_cat(", seed ", *options.seed) : "";
  return base::str_cat("rejection_resample(", text_of_resample(target.target), from, seed, ")");
}

Resampler::Resampler(std::uint64_t key, ResampleTarget target)
    : key_(key), target_(std::move(target)) {
  if (estimates()) {
    counts_.assign(target_.target.size(), kSeenBefore);
    estimate();
  } else {
    acceptance_ = acceptance_for(target_.initial, target_.target);
  }
}

bool Resampler::accepts(std::int64_t element_class, std::uint64_t index) {
  const auto classes = static_cast<std::int64_t>(target_.target.size());
  check_argument(element_class >= 0 && element_class < classes, "the class is ", element_class,
                 "; target_dist has the classes 0 to ", classes - 1);
  const auto number = static_cast<std::size_t>(element_class);
  if (estimates()) {
    ++counts_[number];
    estimate();
  }
  // Each index has a separate draw, which does not depend on where an iteration began.
  base::CounterRng rng(key_, index);
  return rng.uniform() < acceptance_[number];
}

void Resampler::estimate() {
  const auto sum =
      static_cast<double>(std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0}));
  std::vector<double> initial(counts_.size());
  std::transform(counts_.begin(), counts_.end(), initial.begin(),
                 [sum](std::uint64_t count) { return static_cast<double>(count) / sum; });
  acceptance_ = acceptance_for(initial, target_.target);
}

void Resampler::save(io::StateTree& state) const {
  for (const std::uint64_t count : counts_) state[kCounts].push_back(count);
}

void Resampler::restore(const io::StateTree& state) {
  if (!estimates()) return;
  std::vector<std::uint64_t> counts(counts_.size());
  check_argument(state.has(kCounts) && state.as_list(kCounts).size() == counts.size(),
                 "The saved position is damaged: it does not have the counts of the ",
                 counts.size(), " classes of rejection_resample");
  for (std::size_t c = 0; c < counts.size(); ++c) {
    counts[c] = state.as_uint64(kCounts, c);
    check_argument(counts[c] >= kSeenBefore,
                   "The saved position is damaged: a count of rejection_resample is too low");
  }
  counts_ = std::move(counts);
  estimate();
}

}  // namespace brigade::data::internal
