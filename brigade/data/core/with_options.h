#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/node.h"
#include "brigade/data/runtime/stages.h"

namespace brigade::data {

/// Options of all steps of a dataset: see `Dataset::with_options`. Unset: each step decides.
///
/// TensorFlow counterpart: tf.data.Options.
struct Options {
  /// The order of parallel steps that do not set one themselves.
  std::optional<Order> order{};
  /// Limits of `kAutotune`; those in `IteratorOptions::stages` take precedence.
  Tuning tuning{};
};

namespace internal {

/// Not a step: forwards to its input.
template <class T>
class WithOptionsNode final : public Node<T> {
 public:
  WithOptionsNode(NodePtr<T> input, Options options)
      : input_(std::move(input)), options_(std::move(options)) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    if (options.stages) options.stages->set_default_tuning(options_.tuning);
    return input_->iterator(for_input(options));
  }
  std::int64_t cardinality() const override { return input_->cardinality(); }
  std::string describe() const override { return input_->describe(); }
  PipelineDescription pipeline() const override { return input_->pipeline(); }
  std::uint64_t depth() const override { return input_->depth(); }
  ShardingInfo sharding() const override { return input_->sharding(); }
  Order order(const IteratorOptions& options) const override {
    return input_->order(for_input(options));
  }

 private:
  IteratorOptions for_input(IteratorOptions options) const {
    if (!options.order) options.order = options_.order;
    return options;
  }

  NodePtr<T> input_;
  Options options_;
};

}  // namespace internal

/// See `Dataset::with_options`.
template <class T>
NodePtr<T> make_with_options(NodePtr<T> input, Options options) {
  return std::make_shared<const internal::WithOptionsNode<T>>(std::move(input), std::move(options));
}

}  // namespace brigade::data
