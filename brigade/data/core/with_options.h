#pragma once

#include <memory>
#include <optional>
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
class WithOptionsNode final : public InputNode<T> {
 public:
  WithOptionsNode(NodePtr<T> input, Options options)
      : InputNode<T>(std::move(input), InputNode<T>::Need::kAnyOrder),
        options_(std::move(options)) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    if (options.stages) options.stages->set_default_tuning(options_.tuning);
    return this->node().iterator(for_input(options));
  }

 protected:
  IteratorOptions for_input(IteratorOptions options) const override {
    if (!options.order) options.order = options_.order;
    return options;
  }

 private:
  Options options_;
};

}  // namespace internal

/// See `Dataset::with_options`.
template <class T>
NodePtr<T> make_with_options(NodePtr<T> input, Options options) {
  return std::make_shared<const internal::WithOptionsNode<T>>(std::move(input), std::move(options));
}

}  // namespace brigade::data
