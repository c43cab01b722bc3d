#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "brigade/data/core/byte_size.h"
#include "brigade/data/core/structure.h"
#include "brigade/input/tensor_padding.h"

namespace brigade::data {

/// Views count with their full size.
template <>
struct ByteSize<at::Tensor> {
  static std::uint64_t of(const at::Tensor& tensor) {
    return sizeof tensor + (tensor.defined() ? tensor.nbytes() : 0);
  }
};

/// Tensors of one shape are stacked along a new first dimension; batches are unbatched to views.
///
/// Thread-safety: pure functions.
template <>
struct Structure<at::Tensor> {
  using Batch = at::Tensor;
  static Batch stack(std::vector<at::Tensor>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// A list of tensors is one element of several parts, as a tuple is: lists of one length are
/// stacked part by part, and a batch has as many elements as the first dimension of each of its
/// tensors.
///
/// Thread-safety: pure functions. Throws kInvalidArgument for lists of different lengths or none,
/// and for parts with different numbers of elements, naming both.
template <>
struct Structure<std::vector<at::Tensor>> {
  using Batch = std::vector<at::Tensor>;
  static Batch stack(std::vector<std::vector<at::Tensor>>&& elements);
  static std::int64_t size(const Batch& batch);
  static Batch slice(const Batch& batch, std::int64_t begin, std::int64_t end);
};

/// Rows and parts are views of the batch; batches are joined by copying.
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<at::Tensor> : Structure<at::Tensor> {
  using Element = at::Tensor;
  static at::Tensor element(const Batch& batch, std::int64_t index);
  static Batch concatenate(std::vector<Batch>&& parts);
};

/// Lists are unbatched to lists of rows, part by part.
///
/// Thread-safety: pure functions.
template <>
struct Unbatch<std::vector<at::Tensor>> : Structure<std::vector<at::Tensor>> {
  using Element = std::vector<at::Tensor>;
  static Element element(const Batch& batch, std::int64_t index);
  static Batch concatenate(std::vector<Batch>&& parts);
};

namespace internal {

at::Tensor empty_numbers(std::size_t count, at::ScalarType type);
/// Throws kInvalidArgument unless the tensor has this dtype and one dimension.
void check_numbers(const at::Tensor& numbers, at::ScalarType type);

template <class Number>
at::Tensor stack_numbers(const std::vector<Number>& numbers) {
  at::Tensor tensor = empty_numbers(numbers.size(), c10::CppTypeToScalarType<Number>::value);
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data_ptr<Number>());
  return tensor;
}

/// A field of numbers in elements may be a tensor [N] in batches.
template <class Number>
requires std::is_arithmetic_v<Number>
struct FieldStructure<Number, at::Tensor> : Structure<at::Tensor> {
  static at::Tensor stack(std::vector<Number>&& numbers) { return stack_numbers(numbers); }
};
template <class Number>
requires std::is_arithmetic_v<Number>
struct FieldUnbatch<at::Tensor, Number> : Unbatch<at::Tensor> {
  static std::int64_t size(const at::Tensor& numbers) {
    check_numbers(numbers, c10::CppTypeToScalarType<Number>::value);
    return numbers.size(0);
  }
  static Number element(const at::Tensor& numbers, std::int64_t index) {
    return numbers.device().is_cpu() ? numbers.const_data_ptr<Number>()[index * numbers.stride(0)]
                                     : numbers[index].template item<Number>();
  }
};

}  // namespace internal

}  // namespace brigade::data
