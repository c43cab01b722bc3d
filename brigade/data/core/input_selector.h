#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

/// What happens when a dataset is selected that has no elements left.
enum class WhenEmpty {
  kStop,      ///< The transform ends: the mixture never changes.
  kContinue,  ///< Another dataset is selected, until all are empty.
};

namespace internal {

/// Selects the input of the next element.
///
/// Thread-safety: one call at a time.
class InputSelector {
 public:
  virtual ~InputSelector() = default;
  /// The index of an input, or `std::nullopt` at the end. `is_empty` marks the inputs that have no
  /// elements left; selecting one of them does nothing.
  virtual std::optional<std::uint64_t> select(const std::vector<bool>& is_empty) = 0;
  virtual io::StateTree save() const = 0;
  virtual void restore(const io::StateTree& state) = 0;
};

/// Throws kInvalidArgument if there are no datasets.
void check_has_datasets(std::size_t count, const std::string& name);
/// The transform's name in messages and saved positions: `name`, with what it does when an input is
/// empty.
std::string selection_name(const std::string& name, WhenEmpty when_empty);
/// Whether all of these cardinalities are `kInfinite`, or one.
bool all_endless(const std::vector<std::int64_t>& cardinalities);
bool has_endless(const std::vector<std::int64_t>& cardinalities);
/// Throws kCancelled if the iteration is cancelled.
void check_not_cancelled(const IteratorOptions& options, const std::string& name);

template <class T>
class SelectingIterator final : public IteratorBase<T> {
 public:
  SelectingIterator(std::vector<NodePtr<T>> nodes, std::unique_ptr<InputSelector> selector,
                    WhenEmpty when_empty, const ShardingInfo& sharding,
                    const IteratorOptions& options, std::string name)
      : nodes_(std::move(nodes)),
        selector_(std::move(selector)),
        when_empty_(when_empty),
        sharing_(sharding),
        options_(options),
        name_(std::move(name)),
        is_empty_(nodes_.size(), false) {
    for (std::uint64_t input = 0; input < nodes_.size(); ++input) {
      inputs_.push_back(iterator_of(input));
    }
  }

  std::optional<T> next() override {
    while (!has_ended_) {
      const auto selected = selector_->select(is_empty_);
      if (!selected) {
        has_ended_ = true;
      } else if (is_empty_[*selected]) {
        check_not_cancelled(options_, name_);  // the selector may select it forever
      } else if (auto element = inputs_[*selected]->next()) {
        return element;
      } else {
        end_input(*selected);
      }
    }
    return std::nullopt;
  }
  io::StateTree save() const override {
    io::StateTree state =
        make_position(name_, {{"has_ended", has_ended_ ? 1U : 0U}}, selector_->save());
    io::StateTree inputs = io::StateTree::list();
    for (const auto& input : inputs_) inputs.push_back(input ? input->save() : io::StateTree());
    state["inputs"] = std::move(inputs);
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, name_);
    for (std::uint64_t input = 0; input < inputs_.size(); ++input) {
      restore_input(input, position_of_input(state, input, inputs_.size()));
    }
    selector_->restore(position_input(state));
    has_ended_ = position_number(state, "has_ended") != 0;
  }

 private:
  std::unique_ptr<IteratorBase<T>> iterator_of(std::uint64_t input) const {
    return nodes_[input]->iterator(options_of_joined(options_, sharing_, input));
  }
  void end_input(std::uint64_t input) {
    is_empty_[input] = true;
    inputs_[input] = nullptr;  // frees its threads and buffers
    has_ended_ = when_empty_ == WhenEmpty::kStop ||
                 std::find(is_empty_.begin(), is_empty_.end(), false) == is_empty_.end();
  }
  void restore_input(std::uint64_t input, const io::StateTree& state) {
    is_empty_[input] = state.is_null();
    if (is_empty_[input]) {
      inputs_[input] = nullptr;
      return;
    }
    if (!inputs_[input]) inputs_[input] = iterator_of(input);
    inputs_[input]->restore(state);
  }

  std::vector<NodePtr<T>> nodes_;
  std::unique_ptr<InputSelector> selector_;
  WhenEmpty when_empty_;
  ShardingInfo sharing_;
  IteratorOptions options_;
  std::string name_;
  std::vector<std::unique_ptr<IteratorBase<T>>> inputs_;  // null if it is empty
  std::vector<bool> is_empty_;
  bool has_ended_ = false;
};

/// Describes a transform that selects elements of several inputs.
struct SelectionSpec {
  const char* name;
  WhenEmpty when_empty;
  /// Makes the selector of an iterator; `depth` is that of the transform.
  std::function<std::unique_ptr<InputSelector>(const IteratorOptions& job, std::uint64_t depth)>
      make_selector;
  /// The cardinality, from those of the inputs.
  std::function<std::int64_t(const std::vector<std::int64_t>& inputs)> cardinality;
  InputLabels labels;
  /// Whether each shard makes its own selections, so that the shards together are not the whole.
  bool counts_elements = false;
  /// The input of the selector, or null.
  NodePtr<std::int64_t> choices{};
};

template <class T>
class SelectingNode final : public Node<T> {
 public:
  SelectingNode(std::vector<NodePtr<T>> inputs, SelectionSpec spec)
      : inputs_(std::move(inputs)), spec_(std::move(spec)) {
    for (NodePtr<T>& input : inputs_) input = input_in_any_order(std::move(input));
  }
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& job) const override {
    return std::make_unique<SelectingIterator<T>>(inputs_, spec_.make_selector(job, depth()),
                                                  spec_.when_empty, sharding(), job, spec_.name);
  }
  std::int64_t cardinality() const override {
    std::vector<std::int64_t> cardinalities;
    for (const auto& input : inputs_) cardinalities.push_back(input->cardinality());
    return spec_.cardinality(cardinalities);
  }
  std::string describe() const override {
    const auto inputs = of_all([](const auto& node) { return node.describe(); });
    return describe_inputs(name(), inputs, spec_.labels);
  }
  PipelineDescription pipeline() const override {
    const auto inputs = of_all([](const auto& node) { return node.pipeline(); });
    return {step_of_inputs(name(), inputs, spec_.labels)};
  }
  Order order(const IteratorOptions& options) const override {
    std::vector<Order> orders;
    for (const auto& input : inputs_) orders.push_back(input->order(options));
    return order_of_inputs(orders);
  }
  std::uint64_t depth() const override {
    return depth_above(of_all([](const auto& node) { return node.depth(); }));
  }
  ShardingInfo sharding() const override {
    std::vector<ShardingInfo> shardings;
    for (const auto& input : inputs_) shardings.push_back(input->sharding());
    ShardingInfo sharding = sharding_of_joined(shardings);
    if (spec_.counts_elements && sharding.counting_step.empty()) {
      sharding.counting_step = spec_.name;
    }
    return sharding;
  }

 private:
  std::string name() const { return selection_name(spec_.name, spec_.when_empty); }
  /// `function(node)` of each input, and of the choices.
  template <class F>
  auto of_all(F function) const {
    std::vector<decltype(function(*inputs_.front()))> values;
    for (const auto& input : inputs_) values.push_back(function(*input));
    if (spec_.choices) values.push_back(function(*spec_.choices));
    return values;
  }

  std::vector<NodePtr<T>> inputs_;
  SelectionSpec spec_;
};

}  // namespace internal

}  // namespace brigade::data
