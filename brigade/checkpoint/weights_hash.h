#pragma once

#include <span>
#include <string>

#include "brigade/checkpoint/safetensors.h"

namespace brigade::checkpoint {

/// One number that two runs share exactly if their weights are the same, bit for bit: the SHA-256,
/// as 64 lower-case hexadecimal digits, over all `variables` in name order (whatever order they
/// come in), buffers included, optimizer slots not. docs/formats.md gives the bytes, so that any
/// program can compute it.
///
/// Throws `Error{kInvalidArgument}` naming the variable if a name occurs twice or holds a NUL, or a
/// tensor is undefined, sparse, or of a dtype that safetensors does not hold. Thread-safety: a pure
/// function.
std::string weights_sha256(std::span<const NamedTensor> variables);

}  // namespace brigade::checkpoint
