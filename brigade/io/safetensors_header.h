#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::io {

/// A dtype of tensors in files that both safetensors and libtorch have.
struct TensorDtype {
  std::string_view name;   ///< As safetensors spells it: "F32".
  std::int64_t bytes = 0;  ///< Of one element.
  friend bool operator==(const TensorDtype&, const TensorDtype&) = default;
};

/// The dtype of that name, or nothing.
std::optional<TensorDtype> tensor_dtype_named(std::string_view name);

/// The bytes of one element of any dtype that safetensors has, also one that libtorch lacks; 0 for
/// an unknown one.
std::int64_t safetensors_item_bytes(std::string_view dtype);

/// The names of those that both have, for messages: "F64, F32, ...".
std::string tensor_dtypes();

/// The bytes of a tensor of this shape whose elements have `item_bytes`. Nothing if a dimension is
/// negative or the product of the others, without zeros, exceeds 63 bits: libtorch's strides are
/// such products, too. Thread-safety: a pure function.
std::optional<std::uint64_t> tensor_bytes(std::span<const std::int64_t> shape,
                                          std::int64_t item_bytes);

/// The location of one tensor in the data that follows a safetensors header.
struct TensorEntry {
  std::string name;
  TensorDtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< First byte, counted from the end of the header.
  std::uint64_t end = 0;    ///< One past the last.
};

/// The header of a safetensors file: its tensors, and text of its writer.
struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< Sorted by the offset of their data.
  std::map<std::string, std::string> metadata;
};

/// A file begins with the length of its header, a little-endian number of this many bytes.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;

/// The length of a header, from the first eight bytes of a file of `file_bytes`. Throws
/// `Error{kDataLoss}`, naming `file`, if it does not fit into the file or exceeds the limit of a
/// header.
std::uint64_t safetensors_header_length(std::string_view first_bytes, std::uint64_t file_bytes,
                                        std::string_view file);

/// Reads the JSON of a header whose data is `data_bytes` long, and validates it: known dtypes,
/// shapes whose size fits in 63 bits and agrees with the offsets, and data that covers `data_bytes`
/// exactly, without holes or overlaps. Otherwise throws `Error{kDataLoss}` naming `file` and the
/// tensor; also for duplicate or unknown keys, and for nesting deeper than the format's.
/// Thread-safety: a pure function.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view file);

/// The header's JSON for tensors in this order, padded with spaces so that the data after it begins
/// at a multiple of 8 bytes. Throws `Error{kInvalidArgument}` for names or metadata that are not
/// UTF-8.
std::string write_safetensors_header(const SafetensorsHeader& header);

}  // namespace brigade::io
