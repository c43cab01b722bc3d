#pragma once

#include <span>
#include <string>
#include <string_view>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

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

/// The key of a safetensors file's metadata under which its writer recorded the `weights_sha256` of
/// its tensors. Files without it are as they are: there is nothing to compare them with.
inline constexpr std::string_view kWeightsHashKey = "weights_sha256";

/// What is done with tensors that are not those whose hash was recorded.
enum class HashMismatch {
  kRefuse,  ///< kDataLoss that names the file and both hashes
  kAllow,   ///< they are taken: somebody has replaced them on purpose
};

/// Reads a file of weights as `read_safetensors` does, and compares the tensors with the hash in
/// its metadata, if there is one: weights that a disk, a transfer or a program has altered are
/// found before they are used. Choose it wherever weights are loaded to be used or shown;
/// `read_safetensors` is for tensors of any other kind. Throws as `read_safetensors`, and kDataLoss
/// as `mismatch` says. Thread-safety: as `read_safetensors`.
SafetensorsFile read_weights(const io::FileSystem& files, const io::Path& path,
                             HashMismatch mismatch = HashMismatch::kRefuse);

}  // namespace brigade::checkpoint
