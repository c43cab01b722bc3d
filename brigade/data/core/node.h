#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "brigade/data/core/iterator_base.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/data/core/sharding.h"
#include "brigade/data/runtime/measured.h"

namespace brigade::data {

/// One step of a dataset: a source or a transform. Immutable, shared by all datasets built on it.
/// Derive from it to write a custom source or transform.
///
/// Thread-safety: const calls from any number of threads.
template <class T>
class Node {
 public:
  virtual ~Node() = default;
  /// An iterator at the start of epoch `options.epoch`. It must not outlive this node.
  virtual std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const = 0;
  /// Elements in one epoch, `kInfinite` or `kUnknown`.
  virtual std::int64_t cardinality() const = 0;
  /// The chain of steps up to this one, for messages: "fashion_mnist(train) | shuffle(1000)".
  virtual std::string describe() const = 0;
  /// The chain of steps for comparisons. Override it if `describe` prints something that may differ
  /// between machines.
  virtual PipelineDescription pipeline() const { return {describe()}; }
  /// The number of transforms up to this one; 0 for a source. Gives each its own random stream.
  virtual std::uint64_t depth() const = 0;
  /// How the dataset can be divided into shards: which `IteratorOptions::shard` its iterators
  /// support. Sources that read files do; a transform returns that of its input.
  virtual ShardingInfo sharding() const { return {}; }
  /// kRelaxed if an iterator with these options may return the elements in another order each time.
  virtual Order order(const IteratorOptions& /*options*/) const { return Order::kInOrder; }
};

template <class T>
using NodePtr = std::shared_ptr<const Node<T>>;

namespace internal {

/// The input of a transform, as the transform uses it: its iterators record statistics if all steps
/// do, and keep the order if the transform needs that.
template <class T>
class InputNode : public Node<T> {
 public:
  enum class Need { kSameOrder, kAnyOrder };

  InputNode(NodePtr<T> node, Need need) : node_(std::move(node)), need_(need) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return measured(node_->iterator(for_input(options)), options.stages, node_->describe());
  }
  std::int64_t cardinality() const override { return node_->cardinality(); }
  std::string describe() const override { return node_->describe(); }
  PipelineDescription pipeline() const override { return node_->pipeline(); }
  std::uint64_t depth() const override { return node_->depth(); }
  ShardingInfo sharding() const override { return node_->sharding(); }
  Order order(const IteratorOptions& options) const override {
    return node_->order(for_input(options));
  }

 protected:
  const Node<T>& node() const { return *node_; }
  virtual IteratorOptions for_input(IteratorOptions options) const {
    if (need_ == Need::kSameOrder) options.order = Order::kInOrder;
    return options;
  }

 private:
  NodePtr<T> node_;
  Need need_;
};

}  // namespace internal

/// The base class of transforms with one input.
template <class Out, class In = Out>
class TransformNode : public Node<Out> {
 public:
  TransformNode(NodePtr<In> input, std::string name)
      : TransformNode(std::move(input), name, name) {}
  /// `fixed` is `PipelineStep::fixed`.
  TransformNode(NodePtr<In> input, std::string name, std::string fixed)
      : input_(std::move(input)),
        name_(std::move(name)),
        fixed_(std::move(fixed)),
        in_order_(input_, internal::InputNode<In>::Need::kSameOrder),
        in_any_order_(input_, internal::InputNode<In>::Need::kAnyOrder) {}
  std::string describe() const override { return input_->describe() + " | " + name_; }
  PipelineDescription pipeline() const override {
    PipelineDescription pipeline = input_->pipeline();
    pipeline.emplace_back(name_, fixed_);
    return pipeline;
  }
  std::uint64_t depth() const override { return input_->depth() + 1; }
  ShardingInfo sharding() const override { return input_->sharding(); }
  Order order(const IteratorOptions& options) const override { return input_->order(options); }

 protected:
  /// The input, whose iterators return the same elements in the same order each time.
  const Node<In>& input() const { return in_order_; }
  /// The input, whose iterators may relax the order: for a transform whose saved position holds
  /// only that of its input, and nothing read from it.
  const Node<In>& input_in_any_order() const { return in_any_order_; }
  /// The sharding of a transform that counts elements, and so gives other elements for the shards
  /// together than for the whole dataset.
  ShardingInfo sharding_of_counter() const {
    ShardingInfo sharding = input_->sharding();
    if (sharding.counting_step.empty()) sharding.counting_step = name_;
    return sharding;
  }

 private:
  NodePtr<In> input_;
  std::string name_;
  std::string fixed_;
  internal::InputNode<In> in_order_;
  internal::InputNode<In> in_any_order_;
};

}  // namespace brigade::data
