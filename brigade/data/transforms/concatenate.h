#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

namespace internal {

template <class T>
class ConcatenateNode;

/// Iterates over one input at a time, so that only the current input has threads. If the second
/// iterator cannot be created, that is reported as a last element that fails.
template <class T>
class ConcatenateIterator final : public IteratorBase<T> {
 public:
  ConcatenateIterator(const ConcatenateNode<T>& node, const IteratorOptions& options)
      : node_(node), options_(options) {
    start_part(0);
  }
  std::optional<T> next() override {
    if (!input_) return std::nullopt;
    auto element = input_->next();
    if (element || part_ == 1) return element;
    start_part(1);
    return input_->next();
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (!input_) return 0;
    const std::uint64_t passed = input_->skip(count);
    if (passed == count || part_ == 1) return passed;
    try {
      start_part(1);
    } catch (...) {
      rethrow_if_cancelled();
      return passed + 1;
    }
    return passed + input_->skip(count - passed);
  }
  io::StateTree save() const override {
    return make_position("concatenate", {{"part", part_}},
                         input_ ? std::optional(input_->save()) : std::nullopt);
  }
  bool keeps_position_when_cancelled() const override {
    return !input_ || input_->keeps_position_when_cancelled();
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "concatenate");
    const std::uint64_t part = position_number(state, "part");
    check_concatenated_part(part);
    if (part == 1 && !has_position_input(state)) return leave();
    start_part(part);
    input_->restore(position_input(state));
  }

 private:
  void start_part(std::uint64_t part) {
    leave();  // joins its threads before the next part starts new ones
    input_ = node_.iterator_of(part, options_);
    part_ = part;
  }
  void leave() {
    input_ = nullptr;
    part_ = 1;
  }

  const ConcatenateNode<T>& node_;
  IteratorOptions options_;
  std::uint64_t part_ = 0;
  std::unique_ptr<IteratorBase<T>> input_;  // null if it could not be created
};

template <class T>
class ConcatenateNode final : public Node<T> {
 public:
  ConcatenateNode(NodePtr<T> first, NodePtr<T> second)
      : first_(input_in_any_order(std::move(first))),
        second_(input_in_any_order(std::move(second))) {
    (void)cardinality();  // throws if the count overflows
  }
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<ConcatenateIterator<T>>(*this, options);
  }
  std::unique_ptr<IteratorBase<T>> iterator_of(std::uint64_t part,
                                               const IteratorOptions& options) const {
    return (part == 0 ? first_ : second_)->iterator(options_of_joined(options, sharding(), part));
  }
  std::int64_t cardinality() const override {
    return cardinality_of_concatenate(first_->cardinality(), second_->cardinality());
  }
  std::string describe() const override {
    return first_->describe() + " | " + describe_inputs("concatenate", {second_->describe()});
  }
  PipelineDescription pipeline() const override {
    PipelineDescription pipeline = first_->pipeline();
    pipeline.push_back(step_of_inputs("concatenate", {second_->pipeline()}));
    return pipeline;
  }
  std::uint64_t depth() const override { return depth_above({first_->depth(), second_->depth()}); }
  Order order(const IteratorOptions& options) const override {
    return order_of_inputs({first_->order(options), second_->order(options)});
  }
  ShardingInfo sharding() const override {
    return sharding_of_joined({first_->sharding(), second_->sharding()});
  }

 private:
  NodePtr<T> first_;
  NodePtr<T> second_;
};

}  // namespace internal

/// See `Dataset::concatenate`.
template <class T>
NodePtr<T> make_concatenate(NodePtr<T> first, NodePtr<T> second) {
  return std::make_shared<const internal::ConcatenateNode<T>>(std::move(first), std::move(second));
}

}  // namespace brigade::data
