#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/core/structure.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/named_tensors.h"
#include "brigade/input/to_device.h"

namespace brigade::train {

/// What a network of `Model` takes and returns: one tensor, or tensors by name.
template <class T>
concept TensorOrNamedTensors = std::same_as<T, at::Tensor> || std::same_as<T, input::NamedTensors>;

/// One tensor without a name (its name is ""), as `ModelBatch` has it.
input::NamedTensors unnamed(at::Tensor tensor);

/// A batch of a `Model` in its general form: inputs, labels and weights by name. A batch with one
/// input and one label without weights is an `input::LabeledBatch`, which is enough for most
/// models.
///
///   data.map([](const input::NamedTensors& batch) {
///     return ModelBatch{.inputs = batch.without("class"),
///                       .labels = input::NamedTensors({{"class", batch["class"]}})};
///   });
///
/// All tensors are [N, ...] with the same N. A tensor that stands alone may be unnamed (`unnamed`).
///
/// Thread-safety: a value; copies share the tensors, which are not to be written in place.
struct ModelBatch {
  using Batch = ModelBatch;

  input::NamedTensors inputs;
  /// None for `Model::predict`. One label serves all outputs, unless it has the name of one of
  /// them; of several, each output has the label of its name (or see `CompileOptions::labels`).
  input::NamedTensors labels = {};
  /// The weight of each example, [N], or of each value of its loss, [N, ...]: finite, 0 or more.
  /// None: every example counts the same. One serves all outputs, unless it has the name of one of
  /// them; of several, each has the name of its output, and an output without one is unweighted.
  input::NamedTensors sample_weights = {};

  /// The only input. Throws kInvalidArgument, with the names, if there are none or several.
  const at::Tensor& input() const;
  /// The only label, with the same rule.
  const at::Tensor& label() const;
  /// N.
  std::int64_t examples() const;

  /// For autotuning of the input.
  std::uint64_t byte_size() const;
};

/// For `input::to_device`.
template <class Change>
ModelBatch map_tensors(const ModelBatch& batch, const Change& change) {
  return {.inputs = input::map_tensors(batch.inputs, change),
          .labels = input::map_tensors(batch.labels, change),
          .sample_weights = input::map_tensors(batch.sample_weights, change)};
}

/// Conversions of the batches that a `Model` accepts; for the sources and templates of `Model`
/// only.
namespace internal {

inline input::NamedTensors to_named(at::Tensor tensor) {
  return unnamed(std::move(tensor));
}
inline input::NamedTensors to_named(input::NamedTensors tensors) {
  return tensors;
}

/// The only one of `tensors`, which are the `what` of `owner` ("inputs", "The data").
const at::Tensor& only_tensor(const input::NamedTensors& tensors, std::string_view owner,
                              std::string_view what);

/// Throws kInvalidArgument, naming the tensor, for parts with different numbers of examples, and
/// for weights that are negative or not finite, which reads them: on a GPU it waits.
ModelBatch checked(ModelBatch batch);

inline ModelBatch to_model_batch(const input::LabeledBatch& batch) {
  return {.inputs = unnamed(batch.features), .labels = unnamed(batch.labels)};
}
inline ModelBatch to_model_batch(const ModelBatch& batch) {
  return batch;
}
template <TensorOrNamedTensors X, TensorOrNamedTensors Y>
ModelBatch to_model_batch(const std::pair<X, Y>& batch) {
  return {.inputs = to_named(batch.first), .labels = to_named(batch.second)};
}
template <TensorOrNamedTensors X, TensorOrNamedTensors Y>
ModelBatch to_model_batch(const std::tuple<X, Y>& batch) {
  return {.inputs = to_named(std::get<0>(batch)), .labels = to_named(std::get<1>(batch))};
}
template <TensorOrNamedTensors X, TensorOrNamedTensors Y, TensorOrNamedTensors W>
ModelBatch to_model_batch(const std::tuple<X, Y, W>& batch) {
  return {.inputs = to_named(std::get<0>(batch)),
          .labels = to_named(std::get<1>(batch)),
          .sample_weights = to_named(std::get<2>(batch))};
}
template <TensorOrNamedTensors W>
ModelBatch to_model_batch(const std::pair<input::LabeledBatch, W>& batch) {
  ModelBatch result = to_model_batch(batch.first);
  result.sample_weights = to_named(batch.second);
  return result;
}
template <TensorOrNamedTensors W>
ModelBatch to_model_batch(const std::tuple<input::LabeledBatch, W>& batch) {
  ModelBatch result = to_model_batch(std::get<0>(batch));
  result.sample_weights = to_named(std::get<1>(batch));
  return result;
}

}  // namespace internal

/// The types of batches that a dataset for a `Model` may have: (features, labels) and (features,
/// labels, sample weights) as pairs or tuples of tensors or named tensors, `LabeledBatch`, also
/// with sample weights in a pair or tuple, and `ModelBatch`.
template <class B>
concept BatchForModel = requires(const B& batch) {
  internal::to_model_batch(batch);
};

}  // namespace brigade::train

namespace brigade::data {

/// Batches are split as their tensors; what has no tensors stays so.
///
/// Thread-safety: pure functions.
template <>
struct Structure<train::ModelBatch> {
  using Batch = train::ModelBatch;
  static Batch stack(std::vector<train::ModelBatch>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

}  // namespace brigade::data
