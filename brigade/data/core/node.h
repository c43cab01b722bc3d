#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "brigade/data/core/iterator_base.h"
#include "brigade/data/runtime/measured.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/pipeline_description.h"
#include "brigade/data/core/sharding.h"

namespace brigade::data {

/// One step of a dataset's definition: a source or a transform. Immutable, shared by all datasets
/// built on it. Write a source or transform of your own by deriving from it.
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
  /// The same for comparing. Override it where `describe` prints what may differ between machines.
  virtual PipelineDescription pipeline() const { return {describe()}; }
  /// How many transforms stand between the source (0) and here. Gives each its own random stream.
  virtual std::uint64_t depth() const = 0;
  /// Whether and how several walks can share the elements out. The answer says that iterators obey
  /// `IteratorOptions::shard`: sources of files do, everything else passes it on to its input.
  virtual ShardingInfo sharding() const { return {}; }
  /// Whether a walk with these options may give the elements in another order each time.
  virtual Order order(const IteratorOptions& /*options*/) const { return Order::kInOrder; }
};

template <class T>
using NodePtr = std::shared_ptr<const Node<T>>;

namespace internal {

/// The input of a transform, as the transform sees it: its iterators are counted where every step
/// is, and keep to the order if the transform counts on that.
template <class T>
class InputNode final : public Node<T> {
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

 private:
  IteratorOptions for_input(IteratorOptions options) const {
    if (need_ == Need::kSameOrder) options.order = Order::kInOrder;
    return options;
  }

  NodePtr<T> node_;
  Need need_;
};

}  // namespace internal

/// What all transforms with one input share.
template <class Out, class In = Out>
class TransformNode : public Node<Out> {
 public:
  TransformNode(NodePtr<In> input, std::string name)
      : TransformNode(std::move(input), name, name) {}
  /// `fixed` is the part of the name that a job never changes (`PipelineStep`).
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
  /// Whose iterators give the same elements in the same order each time.
  const Node<In>& input() const { return in_order_; }
  /// The input for a transform whose saved position holds that of its input and nothing read from
  /// it: its iterators may relax the order.
  const Node<In>& input_in_any_order() const { return in_any_order_; }
  /// The answer of a transform that counts, and so does something else to shards than to the whole.
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
