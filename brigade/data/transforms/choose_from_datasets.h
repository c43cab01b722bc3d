#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/core/input_selector.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/dataset.h"

namespace brigade::data {

namespace internal {

/// Selects inputs by the numbers of a dataset.
///
/// Thread-safety: one call at a time.
class ChoiceSelector final : public InputSelector {
 public:
  ChoiceSelector(std::unique_ptr<IteratorBase<std::int64_t>> choices, std::uint64_t inputs)
      : choices_(std::move(choices)), inputs_(inputs) {}
  /// Throws kInvalidArgument if a choice is not the number of an input.
  std::optional<std::uint64_t> select(const std::vector<bool>& is_empty) override;
  io::StateTree save() const override { return choices_->save(); }
  void restore(const io::StateTree& state) override { choices_->restore(state); }

 private:
  std::unique_ptr<IteratorBase<std::int64_t>> choices_;
  std::uint64_t inputs_;
};

/// How `choose_from_datasets` selects among `inputs` datasets.
SelectionSpec spec_of_choose(std::size_t inputs, NodePtr<std::int64_t> choices,
                             WhenEmpty when_empty);

}  // namespace internal

/// Element i is the next element of the dataset with the number that element i of `choices` gives,
/// counted from 0. Ends with the choices. When the chosen dataset is exhausted, it ends too; with
/// kContinue it skips the choice instead and ends when all datasets are exhausted.
///
///   auto mixed = data::choose_from_datasets({clean, noisy}, data::range(2).repeat());
///
/// An invalid choice is an element that fails with kInvalidArgument. The cardinality is `kInfinite`
/// if nothing in it ends, `kUnknown` otherwise. Throws kInvalidArgument if there are no datasets.
/// TensorFlow counterpart: Dataset.choose_from_datasets, whose cardinality is infinite if any
/// dataset is.
template <class T>
Dataset<T> choose_from_datasets(const std::vector<Dataset<T>>& datasets,
                                const Dataset<std::int64_t>& choices,
                                WhenEmpty when_empty = WhenEmpty::kStop) {
  std::vector<NodePtr<T>> nodes;
  for (const Dataset<T>& dataset : datasets) nodes.push_back(dataset.node());
  auto spec = internal::spec_of_choose(nodes.size(), choices.node(), when_empty);
  return Dataset<T>(
      std::make_shared<const internal::SelectingNode<T>>(std::move(nodes), std::move(spec)));
}

}  // namespace brigade::data
