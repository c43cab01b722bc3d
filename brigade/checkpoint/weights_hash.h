#pragma once

#include <span>
#include <string>
#include <string_view>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// The SHA-256 of all `variables` as 64 lower-case hexadecimal digits. It is equal for two runs if
/// and only if their weights are equal bit for bit. Variables are hashed in name order, whatever
/// order they are given in; buffers are included, optimizer slots are not. docs/formats.md
/// specifies the hashed bytes, so that any program can compute it.
///
/// Throws `Error{kInvalidArgument}` naming the variable if a name occurs twice or contains a NUL,
/// or a tensor is undefined, sparse, or of a dtype that safetensors does not hold. Thread-safety: a
/// pure function.
std::string weights_sha256(std::span<const NamedTensor> variables);

/// The key of a safetensors file's metadata under which its writer recorded the `weights_sha256` of
/// its tensors. Files without it cannot be verified.
inline constexpr std::string_view kWeightsHashKey = "weights_sha256";

/// What to do with tensors that do not match the recorded hash.
enum class HashMismatch {
  kRefuse,  ///< kDataLoss that names the file and both hashes
  kAllow,   ///< accepts them: they were replaced on purpose
};

/// Reads a file of weights as `read_safetensors` does, and compares the tensors with the hash in
/// its metadata, if there is one. This detects weights that a disk, a transfer or a program has
/// altered. Use it for weights; `read_safetensors` is for other tensors. Throws as
/// `read_safetensors`, and kDataLoss as `mismatch` says. Thread-safety: as `read_safetensors`.
SafetensorsFile read_weights(const io::FileSystem& files, const io::Path& path,
                             HashMismatch mismatch = HashMismatch::kRefuse);

}  // namespace brigade::checkpoint
