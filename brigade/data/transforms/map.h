#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "brigade/base/random.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/index_set.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/pipelined_iterator.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/runtime/autotune.h"

namespace brigade::data {

/// The element that a map function is called for, and a random generator for that element. The
/// random stream is a function of (seed, epoch, index), so augmentation gives the same bits with
/// any number of threads and after a resume.
struct ElementContext {
  std::uint64_t epoch;
  /// The element's index in the epoch, counted from 0.
  std::uint64_t index;
  base::CounterRng& rng;
  /// Cancelled together with the iteration (`IteratorOptions::cancel`), and when the iterator is
  /// destroyed while threads run: for functions that wait.
  const concurrency::CancelToken& cancel;
};

/// Options of `Dataset::map`. By default the function runs on the thread that asks for elements.
struct MapOptions {
  /// Threads that call the function, or `kAutotune`. 1 calls it on the thread of the consumer.
  std::int64_t parallelism = 1;
  /// Seed of `ElementContext::rng`, independent of the job's seed. Unset: derived from the job's
  /// root seed and from the position of this map in the pipeline.
  std::optional<std::uint64_t> seed{};
  /// The name of this step in errors.
  std::string name = "map";
  /// The order of the results of several threads. Unset: the order of the input, unless the whole
  /// dataset is relaxed (`Dataset::with_options`). A later step that restores its position by
  /// reading its input again, such as shuffle, requires and sets kInOrder.
  std::optional<Order> order{};
};

namespace internal {

template <class F, class T>
struct MapTraits {
  static constexpr bool kTakesContext = std::invocable<const F&, T, ElementContext&>;
  static_assert(kTakesContext || std::invocable<const F&, T>,
                "The function of map must be callable as fn(element) or fn(element, "
                "ElementContext&), and be const (no mutable lambda): threads share it");
  static auto result() {
    if constexpr (kTakesContext) {
      return std::type_identity<std::invoke_result_t<const F&, T, ElementContext&>>();
    } else {
      return std::type_identity<std::invoke_result_t<const F&, T>>();
    }
  }
  using Result = std::remove_cvref_t<typename decltype(result())::type>;
  static_assert(!std::is_void_v<Result>, "The function of map must return the new element");
};

std::string name_of_map(const MapOptions& options);
Order order_of_map(const MapOptions& options, const IteratorOptions& job);
/// The thread settings, with `threads` threads at first.
PipelineOptions pipeline_of_map(const MapOptions& options, std::size_t threads,
                                const IteratorOptions& job, Order input_order,
                                const std::string& path);

/// Rethrows the current exception as an `Error` that names the step and the element. An `Error`
/// keeps its code; anything else becomes kAborted.
[[noreturn]] void rethrow_at_element(const std::string& where, std::uint64_t epoch,
                                     std::uint64_t index);

/// Calls the user's function with the context of each element and adds the element to its errors.
template <class F, class T>
struct MapCall {
  using Result = typename MapTraits<F, T>::Result;
  std::shared_ptr<const F> function;
  std::string where;
  std::uint64_t epoch;
  std::uint64_t key;
  concurrency::CancelToken cancel;

  Result operator()(T&& element, std::uint64_t index) const {
    try {
      if constexpr (MapTraits<F, T>::kTakesContext) {
        base::CounterRng rng(base::mix_seed(key, index));
        ElementContext context{epoch, index, rng, cancel};
        return (*function)(std::move(element), context);
      } else {
        return (*function)(std::move(element));
      }
    } catch (...) {
      rethrow_at_element(where, epoch, index);
    }
  }
};

/// Uses the same position format as `PipelinedIterator`: the number of threads is not part of the
/// position.
template <class F, class T>
class MapIterator final : public IteratorBase<typename MapTraits<F, T>::Result> {
 public:
  using Result = typename MapTraits<F, T>::Result;

  MapIterator(std::unique_ptr<IteratorBase<T>> input, MapCall<F, T> call)
      : input_(std::move(input)), call_(std::move(call)) {}
  std::optional<Result> next() override {
    pass_early();
    const std::uint64_t index = index_++;
    auto element = input_->next();
    if (element) return call_(std::move(*element), index);
    --index_;
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (!early_.is_empty()) return IteratorBase<Result>::skip(count);
    const std::uint64_t passed = input_->skip(count);
    index_ += passed;
    return passed;
  }
  io::StateTree save() const override {
    io::StateTree state = make_position("map", {{"place", index_}, {"ahead", 0}}, input_->save());
    save_index_set(state, early_);
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "map");
    early_ = load_index_set(state);
    check_early(early_, position_number(state, "place"));
    input_->restore(position_input(state));
    const std::uint64_t ahead = checked_ahead(position_number(state, "ahead"));
    index_ = position_number(state, "place") + cancellable_skip(*input_, ahead, call_.cancel);
  }

 private:
  /// Skips elements that were delivered early, in relaxed order, before the state was saved.
  void pass_early() {
    if (early_.is_empty()) return;
    const std::uint64_t end = early_.end_of_run(index_);
    if (end != index_) index_ += cancellable_skip(*input_, end - index_, call_.cancel);
    early_.drop_below(index_);
  }

  std::unique_ptr<IteratorBase<T>> input_;
  MapCall<F, T> call_;
  std::uint64_t index_ = 0;
  IndexSet early_;
};

template <class F, class T>
class MapNode final : public TransformNode<typename MapTraits<F, T>::Result, T> {
 public:
  using Result = typename MapTraits<F, T>::Result;

  MapNode(NodePtr<T> input, F function, MapOptions options)
      : TransformNode<Result, T>(std::move(input), name_of_map(options)),
        function_(std::make_shared<const F>(std::move(function))),
        threads_(threads_for(options.parallelism, options.name)),
        options_(std::move(options)) {}
  std::unique_ptr<IteratorBase<Result>> iterator(const IteratorOptions& options) const override {
    if (options_.parallelism == 1) {
      const Node<T>& from = this->input_in_any_order();
      return std::make_unique<MapIterator<F, T>>(from.iterator(options), call_of(options));
    }
    auto end = std::make_unique<const concurrency::LinkedToken>(options.cancel);
    const IteratorOptions job = options_ended_by(*end, options);
    // Elements delivered early are identified by index, so the input must keep its order.
    const bool is_relaxed = order_of_map(options_, job) == Order::kRelaxed;
    const Node<T>& from = is_relaxed ? this->input() : this->input_in_any_order();
    return std::make_unique<PipelinedIterator<T, Result>>(
        from.iterator(job), call_of(job),
        pipeline_of_map(options_, threads_, job, from.order(job), this->describe()),
        std::move(end));
  }
  Order order(const IteratorOptions& job) const override {
    if (options_.parallelism != 1 && order_of_map(options_, job) == Order::kRelaxed) {
      return Order::kRelaxed;
    }
    return this->input_in_any_order().order(job);
  }
  std::int64_t cardinality() const override { return this->input().cardinality(); }

 private:
  MapCall<F, T> call_of(const IteratorOptions& job) const {
    return {function_, this->describe(), job.epoch,
            key_of_stream("map", options_.seed, job, this->depth(), job.epoch),
            job.cancel.value_or(concurrency::CancelToken())};
  }

  std::shared_ptr<const F> function_;
  std::size_t threads_;
  MapOptions options_;
};

}  // namespace internal

/// See `Dataset::map`.
template <class T, class F>
NodePtr<typename internal::MapTraits<F, T>::Result> make_map(NodePtr<T> input, F function,
                                                             MapOptions options) {
  return std::make_shared<const internal::MapNode<F, T>>(std::move(input), std::move(function),
                                                         std::move(options));
}

}  // namespace brigade::data
