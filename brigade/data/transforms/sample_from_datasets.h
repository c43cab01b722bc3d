#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/base/random.h"
#include "brigade/data/core/input_selector.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/dataset.h"
#include "brigade/data/transforms/shuffle.h"

namespace brigade::data {

/// Options of `sample_from_datasets`.
struct SampleOptions {
  /// Seed of the choices, independent of the job's seed. Unset: derived from the job's root seed
  /// and from the position of this transform in the pipeline.
  std::optional<std::uint64_t> seed{};
  /// With kContinue the mixture changes once a dataset is exhausted; kStop keeps the mixture and
  /// drops the remaining elements.
  WhenEmpty when_empty = WhenEmpty::kContinue;
  /// If false, every epoch makes the same choices.
  bool rerandomize_each_iteration = true;
};

namespace internal {

/// Chooses at random, by weight, among the inputs that are not empty. Choice i of an epoch is a
/// function of the key, i and which inputs are empty.
///
/// Thread-safety: one call at a time.
class RandomSelector final : public InputSelector {
 public:
  RandomSelector(std::uint64_t key, std::vector<double> weights);
  std::optional<std::uint64_t> select(const std::vector<bool>& is_empty) override;
  io::StateTree save() const override;
  void restore(const io::StateTree& state) override;

 private:
  void add_up(const std::vector<bool>& is_empty);

  base::CounterRng rng_;
  std::vector<double> weights_;
  std::vector<bool> is_empty_;  // the state that `sums_` was computed for
  std::vector<double> sums_;    // cumulative weights
};

/// The weights, one for each dataset; equal if none are given. Throws kInvalidArgument unless
/// there are as many as datasets, none is negative or not finite, and one is more than 0.
std::vector<double> weights_for(std::vector<double> weights, std::size_t datasets);

/// How `sample_from_datasets` selects among datasets with these weights.
SelectionSpec spec_of_sample(std::vector<double> weights, const SampleOptions& options);

}  // namespace internal

/// Each element is the next one of a dataset drawn at random: dataset i with probability
/// weights[i] / (sum of the weights of those not empty); without weights, all are equally likely.
/// The choices are a function of (pipeline, seed, epoch), and the saved position is their count
/// with the positions of the datasets.
///
///   auto mixed = data::sample_from_datasets({rare.repeat(), common.repeat()}, {0.3, 0.7});
///
/// Datasets of weight 0 are ignored. Throws kInvalidArgument if there are no datasets, if there
/// are not as many weights as datasets, and if weights are negative, not finite or all 0.
/// TensorFlow counterpart: Dataset.sample_from_datasets (other random numbers; where TensorFlow
/// calls it infinite although it stops at a dataset with an end, it is `kUnknown` here).
template <class T>
Dataset<T> sample_from_datasets(const std::vector<Dataset<T>>& datasets,
                                std::vector<double> weights = {}, SampleOptions options = {}) {
  internal::check_has_datasets(datasets.size(), "sample_from_datasets");
  weights = internal::weights_for(std::move(weights), datasets.size());
  std::vector<NodePtr<T>> nodes;
  std::vector<double> their_weights;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (weights[i] == 0) continue;
    nodes.push_back(datasets[i].node());
    their_weights.push_back(weights[i]);
  }
  auto spec = internal::spec_of_sample(std::move(their_weights), options);
  return Dataset<T>(
      std::make_shared<const internal::SelectingNode<T>>(std::move(nodes), std::move(spec)));
}

}  // namespace brigade::data
