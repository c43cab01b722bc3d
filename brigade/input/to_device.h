#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "brigade/data/core/fields.h"

namespace brigade::input {

namespace internal {

template <class T>
inline constexpr bool kHoldsNoTensor = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <>
inline constexpr bool kHoldsNoTensor<std::string> = true;
template <class T>
inline constexpr bool kHoldsNoTensor<std::vector<T>> = true;

}  // namespace internal

/// The batch with each tensor replaced by `change(tensor)`, in a fixed order; used to copy batches
/// to devices. Tuples, pairs, lists of tensors and types that name their fields (see
/// `data::HasFields`) are changed part by part; lists of anything else, numbers and strings are
/// unchanged. For your own batch type, an overload of `map_tensors(batch, change)` in its namespace
/// replaces this.
template <class B, class Change>
B each_tensor(const B& batch, const Change& change) {
  if constexpr (std::same_as<B, at::Tensor>) {
    return change(batch);
  } else if constexpr (requires { map_tensors(batch, change); }) {
    return map_tensors(batch, change);
  } else if constexpr (std::same_as<B, std::vector<at::Tensor>>) {
    B changed;
    for (const at::Tensor& tensor : batch) changed.push_back(change(tensor));
    return changed;
  } else if constexpr (data::internal::HasParts<B>) {
    const auto parts = data::internal::parts_of(batch);
    return data::internal::from_parts<B>(
        [&](auto i) { return each_tensor(std::get<i>(parts), change); });
  } else {
    static_assert(internal::kHoldsNoTensor<B>,
                  "Batches of this type cannot be copied to a device: name the fields of the type "
                  "in it, `static constexpr auto fields = std::tuple{&Batch::first, "
                  "&Batch::second};`, or write a map_tensors for it.");
    return batch;
  }
}

/// The tensor on `device`; unchanged if it is there already. Copies from pinned memory to CUDA do
/// not block the host.
inline at::Tensor tensor_to_device(const at::Tensor& tensor, c10::Device device) {
  return tensor.to(device, /*non_blocking=*/true);
}

/// Copies a batch to `device`, tensor by tensor.
template <class B>
B to_device(const B& batch, c10::Device device) {
  return each_tensor(batch,
                     [&](const at::Tensor& tensor) { return tensor_to_device(tensor, device); });
}

}  // namespace brigade::input
