#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace brigade::device {

/// A dtype of tensors that Brigade writes into files: the dtypes that both libtorch and safetensors
/// have.
struct FileDtype {
  at::ScalarType type;
  std::string_view safetensors;  ///< As safetensors spells it: "F32".
  std::string_view name;         ///< As users and `weights_sha256` spell it: "float32".
  std::int64_t bytes;            ///< Of one element.
};

/// All file dtypes. Files of elements store a dtype as its index in this list, so new dtypes must
/// be appended.
std::span<const FileDtype> file_dtypes();

/// The dtype for `type`, or nothing (complex, quantized and other types).
std::optional<FileDtype> file_dtype_of(at::ScalarType type);

/// The dtype with the safetensors name `name`, or nothing.
std::optional<FileDtype> file_dtype_named(std::string_view name);

/// Their names, for messages: "float64, float32, ...".
std::string file_dtype_names();

}  // namespace brigade::device
