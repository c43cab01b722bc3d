#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/element_result.h"
#include "brigade/data/core/inputs.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/dataset.h"

namespace brigade::data {

namespace internal {

template <class... T>
class ZipIterator final : public IteratorBase<std::tuple<T...>> {
 public:
  using Row = std::tuple<T...>;

  explicit ZipIterator(std::unique_ptr<IteratorBase<T>>... inputs)
      : inputs_(std::move(inputs)...) {}

  std::optional<Row> next() override {
    if (has_ended_) return std::nullopt;
    return next_row(std::index_sequence_for<T...>());
  }
  std::uint64_t skip(std::uint64_t count) override {
    if (has_ended_) return 0;
    const std::uint64_t passed =
        std::apply([count](auto&... input) { return std::min({input->skip(count)...}); }, inputs_);
    has_ended_ = passed < count;
    return passed;
  }
  io::StateTree save() const override {
    io::StateTree state = make_position("zip", {});
    state["inputs"] = std::apply(
        [](const auto&... input) { return io::StateTree::List{input->save()...}; }, inputs_);
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "zip");
    std::uint64_t index = 0;
    std::apply(
        [&](auto&... input) {
          (input->restore(position_of_input(state, index++, sizeof...(T))), ...);
        },
        inputs_);
    has_ended_ = false;
  }

 private:
  /// If one element of a row fails, the whole row fails; all inputs advance.
  template <std::size_t... I>
  std::optional<Row> next_row(std::index_sequence<I...>) {
    std::tuple<ElementResult<T>...> row;
    has_ended_ =
        ((std::get<I>(row) = result_of_next(*std::get<I>(inputs_)), std::get<I>(row).is_end()) ||
         ...);
    if (has_ended_) return std::nullopt;
    (throw_if(std::get<I>(row).error), ...);
    return std::optional<Row>(std::in_place, std::move(*std::get<I>(row).element)...);
  }
  static void throw_if(const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  }

  std::tuple<std::unique_ptr<IteratorBase<T>>...> inputs_;
  bool has_ended_ = false;
};

template <class... T>
class ZipNode final : public Node<std::tuple<T...>> {
 public:
  /// In order, so that rows match.
  explicit ZipNode(NodePtr<T>... inputs) : inputs_(input_in_order(std::move(inputs))...) {}

  std::unique_ptr<IteratorBase<std::tuple<T...>>> iterator(
      const IteratorOptions& options) const override {
    return iterator(options, sharding(), std::index_sequence_for<T...>());
  }
  std::int64_t cardinality() const override {
    return cardinality_of_zip(of_inputs([](const auto& input) { return input.cardinality(); }));
  }
  std::string describe() const override {
    return describe_inputs("zip", of_inputs([](const auto& input) { return input.describe(); }));
  }
  PipelineDescription pipeline() const override {
    return {step_of_inputs("zip", of_inputs([](const auto& input) { return input.pipeline(); }))};
  }
  std::uint64_t depth() const override {
    return depth_above(of_inputs([](const auto& input) { return input.depth(); }));
  }
  ShardingInfo sharding() const override {
    return sharding_of_aligned(of_inputs([](const auto& input) { return input.sharding(); }));
  }

 private:
  template <std::size_t... I>
  auto iterator(const IteratorOptions& options, const ShardingInfo& shared,
                std::index_sequence<I...>) const {
    return std::make_unique<ZipIterator<T...>>(
        std::get<I>(inputs_)->iterator(options_of_joined(options, shared, I))...);
  }
  template <class F>
  auto of_inputs(F answer) const {
    return std::apply([&](const auto&... input) { return std::vector{answer(*input)...}; },
                      inputs_);
  }

  std::tuple<NodePtr<T>...> inputs_;
};

}  // namespace internal

/// Element i is the tuple of the datasets' elements i; it ends with the shortest dataset. Batches
/// of it are tuples of batches.
///
///   for (auto& [image, label] : data::zip(images, labels)) { ... }
///   auto batches = data::zip(images, labels).batch(32);  // of tuples of two batches
///
/// If an element fails, its row does. Parallel steps before it keep their order, so that rows
/// match. The zipped datasets are shuffled in different orders; to shuffle rows, zip first. It can
/// be sharded only if all datasets have a `shard_hint`. TensorFlow counterpart: Dataset.zip.
template <class... T>
requires(sizeof...(T) >= 2) Dataset<std::tuple<T...>> zip(const Dataset<T>&... datasets) {
  return Dataset<std::tuple<T...>>(
      std::make_shared<const internal::ZipNode<T...>>(datasets.node()...));
}

}  // namespace brigade::data
