#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace brigade::io {

/// What a part of a tensor covers along one dimension.
struct SliceExtent {
  /// The length that stands for the whole dimension; its start is 0.
  static constexpr std::int64_t kWhole = -1;
  std::int64_t start = 0;
  std::int64_t length = kWhole;
};

/// The key under which the index of a TensorFlow checkpoint stores a part of the tensor `name`. It
/// begins with a NUL byte, unlike the names of whole tensors. TensorFlow: EncodeTensorNameSlice.
///
/// The numbers are in a code whose byte order is that of the numbers. Natural numbers: how many
/// bytes they have, then these, the highest first. Text: the bytes 00 and ff are followed by ff and
/// 00, and it ends with 00 01. Integers of 7 n bits in two's complement: n bytes, the highest
/// first, whose first n bits are all the inverted sign, for the smallest n that fits.
///
/// Thread-safety: a pure function.
std::string tensor_slice_key(std::string_view name, std::span<const SliceExtent> extents);

}  // namespace brigade::io
