#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "brigade/data/core/codec.h"
#include "brigade/input/labeled_example.h"

namespace brigade::data {

/// Encodes tensors for files of elements: dtype, shape, and the values in row-major order. Any
/// device and strides can be written; a decoded tensor is contiguous on the CPU, in separate
/// memory. float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 and bool; `encode`
/// throws kInvalidArgument for others, and for tensors that are undefined, sparse or quantized.
///
/// Thread-safety: pure functions.
template <>
struct Codec<at::Tensor> {
  static std::string name() { return "tensor"; }
  static void encode(const at::Tensor& tensor, Encoder& to);
  static at::Tensor decode(Decoder& from);
};

/// Features, and the label as i64.
///
/// Thread-safety: pure functions.
template <>
struct Codec<input::LabeledExample> {
  static std::string name() { return "labeled_example"; }
  static void encode(const input::LabeledExample& example, Encoder& to);
  static input::LabeledExample decode(Decoder& from);
};

/// Features and labels.
///
/// Thread-safety: pure functions.
template <>
struct Codec<input::LabeledBatch> {
  static std::string name() { return "labeled_batch"; }
  static void encode(const input::LabeledBatch& batch, Encoder& to);
  static input::LabeledBatch decode(Decoder& from);
};

}  // namespace brigade::data
