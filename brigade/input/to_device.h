#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <tuple>
#include <utility>
#include <vector>

#include "brigade/input/labeled_example.h"

namespace brigade::input {

/// Calls the `map_tensors` that belongs to the batch's type.
template <class B, class Change>
B each_tensor(const B& batch, const Change& change);

/// The batch with each tensor replaced by `change(tensor)`, in a fixed order; used to copy batches
/// to devices. For your own batch type, write an overload in its namespace. Lists without tensors
/// are unchanged; tuples and pairs are changed part by part.
template <class Change>
at::Tensor map_tensors(const at::Tensor& batch, const Change& change) {
  return change(batch);
}
template <class Change>
LabeledBatch map_tensors(const LabeledBatch& batch, const Change& change) {
  at::Tensor features = change(batch.features);
  return {.features = std::move(features), .labels = change(batch.labels)};
}
template <class T, class Change>
std::vector<T> map_tensors(const std::vector<T>& batch, const Change&) {
  return batch;
}

template <class Change>
std::vector<at::Tensor> map_tensors(const std::vector<at::Tensor>& batch, const Change& change) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : batch) result.push_back(change(tensor));
  return result;
}

template <class... B, class Change>
std::tuple<B...> map_tensors(const std::tuple<B...>& batch, const Change& change) {
  // Braces: from the first part to the last.
  return std::apply(
      [&](const auto&... part) { return std::tuple<B...>{each_tensor(part, change)...}; }, batch);
}
template <class A, class B, class Change>
std::pair<A, B> map_tensors(const std::pair<A, B>& batch, const Change& change) {
  A first = each_tensor(batch.first, change);
  return {std::move(first), each_tensor(batch.second, change)};
}

template <class B, class Change>
B each_tensor(const B& batch, const Change& change) {
  return map_tensors(batch, change);
}

/// The tensor on `device`; unchanged if it is there already. Copies from pinned memory to CUDA do
/// not block the host.
at::Tensor tensor_to_device(const at::Tensor& tensor, c10::Device device);

/// Copies a batch to `device`, tensor by tensor.
template <class B>
B to_device(const B& batch, c10::Device device) {
  return each_tensor(batch,
                     [&](const at::Tensor& tensor) { return tensor_to_device(tensor, device); });
}

}  // namespace brigade::input
