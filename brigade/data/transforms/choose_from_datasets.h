#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

std::int64_t cardinality_of_choose(const std::vector<std::int64_t>& inputs, std::int64_t choices);

template <class T>
class ChooseNode final : public Node<T> {
 public:
  ChooseNode(std::vector<NodePtr<T>> inputs, NodePtr<std::int64_t> choices, WhenEmpty when_empty)
      : inputs_(inputs_in_any_order(std::move(inputs))),
        choices_(input_in_order(std::move(choices))),
        when_empty_(when_empty) {
    check_has_datasets(inputs_.size(), kName);
  }
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    // The choices are the same in every shard.
    IteratorOptions of_choices = options;
    of_choices.shard = Shard();
    auto choices = choices_->iterator(options_of_input(of_choices, inputs_.size()));
    return std::make_unique<SelectingIterator<T>>(
        inputs_, std::make_unique<ChoiceSelector>(std::move(choices), inputs_.size()), when_empty_,
        sharding(), options, kName);
  }
  std::int64_t cardinality() const override {
    return cardinality_of_choose(
        of_each(inputs_, [](const auto& node) { return node.cardinality(); }),
        choices_->cardinality());
  }
  std::string describe() const override {
    auto inputs = of_each(inputs_, [](const auto& node) { return node.describe(); });
    inputs.push_back(choices_->describe());
    return describe_inputs(name(), inputs, labels());
  }
  PipelineDescription pipeline() const override {
    auto inputs = of_each(inputs_, [](const auto& node) { return node.pipeline(); });
    inputs.push_back(choices_->pipeline());
    return {step_of_inputs(name(), inputs, labels())};
  }
  Order order(const IteratorOptions& options) const override {
    return order_of_inputs(of_each(inputs_, [&](const auto& node) { return node.order(options); }));
  }
  std::uint64_t depth() const override {
    auto depths = of_each(inputs_, [](const auto& node) { return node.depth(); });
    depths.push_back(choices_->depth());
    return depth_above(depths);
  }
  /// Each shard consumes all choices.
  ShardingInfo sharding() const override {
    ShardingInfo sharding =
        sharding_of_joined(of_each(inputs_, [](const auto& node) { return node.sharding(); }));
    if (sharding.counting_step.empty()) sharding.counting_step = kName;
    return sharding;
  }

 private:
  static constexpr const char* kName = "choose_from_datasets";

  std::string name() const { return selection_name(kName, when_empty_); }
  InputLabels labels() const {
    InputLabels labels(inputs_.size());
    labels.emplace_back("choices ");
    return labels;
  }

  std::vector<NodePtr<T>> inputs_;
  NodePtr<std::int64_t> choices_;
  WhenEmpty when_empty_;
};

}  // namespace internal

/// Element i is the next element of the dataset with the number that element i of `choices` gives,
/// counted from 0. Ends with the choices. When the chosen dataset is exhausted, it ends too; with
/// kContinue it skips the choice instead and ends when all datasets are exhausted.
///
///   auto mixed = data::choose_from_datasets({clean, noisy}, data::range(2).repeat());
///
/// An invalid choice is an element that fails with kInvalidArgument. The cardinality
/// is `kInfinite` if nothing in it ends, `kUnknown` otherwise. Throws kInvalidArgument if there are
/// no datasets. TensorFlow counterpart: Dataset.choose_from_datasets, whose cardinality is infinite
/// if any dataset is.
template <class T>
Dataset<T> choose_from_datasets(const std::vector<Dataset<T>>& datasets,
                                const Dataset<std::int64_t>& choices,
                                WhenEmpty when_empty = WhenEmpty::kStop) {
  std::vector<NodePtr<T>> nodes;
  for (const Dataset<T>& dataset : datasets) nodes.push_back(dataset.node());
  return Dataset<T>(std::make_shared<const internal::ChooseNode<T>>(std::move(nodes),
                                                                    choices.node(), when_empty));
}

}  // namespace brigade::data
