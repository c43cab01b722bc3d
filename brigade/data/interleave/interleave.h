#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/order.h"
#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/interleave/interleave_iterator.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/parallel_interleave.h"
#include "brigade/data/runtime/autotune.h"

namespace brigade::data {

/// Options of `Dataset::interleave`.
struct InterleaveOptions {
  /// Number of datasets that are interleaved at the same time. `kAutotune` follows TensorFlow, so
  /// the order depends on the number of cores: without threads it is the number of cores; with
  /// threads at most `parallelism`; a third of the cores if the parallelism is `kAutotune` too. Set
  /// it where runs on different machines must give the same order.
  std::int64_t cycle_length = kAutotune;
  /// Consecutive elements taken from a dataset before the next one.
  std::int64_t block_length = 1;
  /// Threads that create the datasets and prefetch from them, or `kAutotune`. 1 does all work on
  /// the thread of the consumer, on demand. The elements and their order are the same.
  std::int64_t parallelism = 1;
  /// With threads, kRelaxed returns whatever is ready instead of waiting for a slow dataset. Unset:
  /// `IteratorOptions::order` decides; the default is in order.
  std::optional<Order> order{};
};

namespace internal {

/// The number of datasets that are open at the same time. Throws kInvalidArgument unless the cycle
/// length is `kAutotune` or in 1 ... 65536.
std::uint64_t cycle_length_for(const InterleaveOptions& options);

/// Throws kInvalidArgument if the block length is less than 1.
InterleaveShape shape_of_interleave(const InterleaveOptions& options);

/// The transform's name for messages, with all parameters that determine the order.
std::string name_of_interleave(const InterleaveShape& shape, const InterleaveOptions& options);

Order order_of_interleave(const InterleaveOptions& options, const IteratorOptions& job);

/// The thread settings, `threads` at first: no more than queues that can be read at the same time.
InterleaveThreads threads_of_interleave(const InterleaveOptions& options, std::size_t threads,
                                        const InterleaveShape& shape, const IteratorOptions& job,
                                        const std::string& path);

template <class F, class T>
struct InnerTraits {
  static_assert(std::invocable<const F&, T>,
                "The function of flat_map and interleave must be callable as fn(element), and be "
                "const (no mutable lambda): threads share it");
  using Result = std::remove_cvref_t<std::invoke_result_t<const F&, T>>;
  static_assert(
      requires(const Result& made) {
        typename Result::Element;
        { made.node() } -> std::convertible_to<NodePtr<typename Result::Element>>;
      },
      "The function of flat_map and interleave must return a Dataset");
  using Element = typename Result::Element;
};

template <class T, class U>
class InterleaveNode final : public TransformNode<U, T> {
 public:
  using Function = std::function<NodePtr<U>(T&&)>;

  InterleaveNode(NodePtr<T> input, Function function, InterleaveShape shape, std::string name,
                 InterleaveOptions options)
      : TransformNode<U, T>(std::move(input), std::move(name)),
        function_(std::move(function)),
        shape_(std::move(shape)),
        options_(options),
        threads_(threads_for(options.parallelism, shape_.name)) {}
  std::unique_ptr<IteratorBase<U>> iterator(const IteratorOptions& options) const override {
    if (options_.parallelism == 1) {
      return std::make_unique<InterleaveIterator<T, U>>(input_of(options), maker_of(options),
                                                        shape_);
    }
    auto end = std::make_unique<const concurrency::LinkedToken>(options.cancel);
    const IteratorOptions job = options_ended_by(*end, options);
    return std::make_unique<ParallelInterleaveIterator<T, U>>(
        input_of(job), maker_of(job), shape_,
        threads_of_interleave(options_, threads_, shape_, job, this->describe()), std::move(end));
  }
  /// The input keeps its order, and so do the inner datasets.
  Order order(const IteratorOptions& job) const override {
    return options_.parallelism == 1 ? Order::kInOrder : order_of_interleave(options_, job);
  }
  std::int64_t cardinality() const override { return kUnknown; }

 private:
  ReplayableInput<T> input_of(const IteratorOptions& job) const {
    return {this->input().iterator(job), job.cancel};
  }
  InnerMaker<T, U> maker_of(const IteratorOptions& job) const {
    return {function_, this->describe(), options_in_order(job)};
  }

  Function function_;
  InterleaveShape shape_;
  InterleaveOptions options_;
  std::size_t threads_;
};

template <class T, class F>
auto make_interleaved(NodePtr<T> input, F function, InterleaveShape shape, std::string name,
                      const InterleaveOptions& options) {
  using U = typename InnerTraits<F, T>::Element;
  return NodePtr<U>(std::make_shared<const InterleaveNode<T, U>>(
      std::move(input),
      // Shared, because std::function must be copyable and lambdas may capture move-only values.
      [function = std::make_shared<const F>(std::move(function))](T&& element) -> NodePtr<U> {
        return (*function)(std::move(element)).node();
      },
      std::move(shape), std::move(name), options));
}

}  // namespace internal

/// See `Dataset::interleave`.
template <class T, class F>
auto make_interleave(NodePtr<T> input, F function, const InterleaveOptions& options) {
  internal::InterleaveShape shape = internal::shape_of_interleave(options);
  std::string name = internal::name_of_interleave(shape, options);
  return internal::make_interleaved(std::move(input), std::move(function), std::move(shape),
                                    std::move(name), options);
}

/// See `Dataset::flat_map`: a cycle of one dataset.
template <class T, class F>
auto make_flat_map(NodePtr<T> input, F function) {
  return internal::make_interleaved(std::move(input), std::move(function), {.name = "flat_map"},
                                    "flat_map", {.cycle_length = 1});
}

}  // namespace brigade::data
