#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace brigade::device {

/// A dtype whose tensors Brigade writes into files: those that libtorch and safetensors share.
struct FileDtype {
  at::ScalarType type;
  std::string_view safetensors;  ///< As safetensors spells it: "F32".
  std::string_view name;         ///< As people and `weights_sha256` spell it: "float32".
  std::int64_t bytes;            ///< Of one element.
};

/// All of them. Files of elements hold a dtype as its place in this list: new ones go to its end.
std::span<const FileDtype> file_dtypes();

/// The one that is `type`, or nothing (complex, quantized and other types).
std::optional<FileDtype> file_dtype_of(at::ScalarType type);

/// The one that safetensors calls `name`, or nothing.
std::optional<FileDtype> file_dtype_named(std::string_view name);

/// Their names, for messages: "float64, float32, ...".
std::string file_dtype_names();

}  // namespace brigade::device
