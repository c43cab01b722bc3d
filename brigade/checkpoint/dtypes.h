#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace brigade::checkpoint {

/// A dtype that libtorch and the safetensors format share.
struct Dtype {
  at::ScalarType type;
  std::string_view safetensors;  ///< As safetensors spells it: "F32".
  std::string_view name;         ///< As people and `weights_sha256` spell it: "float32".
  std::int64_t bytes;            ///< Of one element.
};

/// The shared dtype that is `type`, or nothing (complex, quantised and other types).
std::optional<Dtype> dtype_of(at::ScalarType type);

/// The shared dtype that safetensors calls `name`, or nothing.
std::optional<Dtype> dtype_named(std::string_view name);

/// What safetensors calls the shared dtypes, for messages: "F64, F32, ...".
std::string shared_dtypes();

}  // namespace brigade::checkpoint
