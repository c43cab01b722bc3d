#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// A tensor with the name of its variable.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The content of a safetensors file. docs/formats.md describes the bytes.
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  ///< In name order, on the CPU, each with its own storage.
  std::map<std::string, std::string> metadata;  ///< Free text from the writer.

  /// The tensor called `name`. Throws `Error{kNotFound}`, which suggests the nearest name, if there
  /// is none.
  const at::Tensor& at(std::string_view name) const;
};

/// Writes `tensors` to `path` in the safetensors format, which Python and others read, replacing an
/// existing file atomically (`io::atomic_write`). Any device, any strides; dtypes that the format
/// shares with libtorch (float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8,
/// bool). The order of `tensors` does not change the bytes.
///
/// Holds one copy of all tensors in memory while it writes. Throws `Error{kInvalidArgument}` naming
/// the tensor for a name that occurs twice, is "__metadata__" or is not UTF-8, and for a tensor
/// that is undefined, sparse or of another dtype; also throws as `io::FileSystem` does.
void save_safetensors(io::FileSystem& files, const io::Path& path,
                      std::span<const NamedTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Size and checksum of a file. CRC-32C detects corrupt bytes, not forged ones, and takes a small
/// part of the time of SHA-256 (docs/formats.md).
struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Reads a safetensors file, directly into the tensors. Throws `Error{kDataLoss}`, naming the file
/// and, where possible, the tensor, if the file violates the format (a malicious file cannot do
/// more than that), or if its size or checksum is not the `expected` one; and as `io::FileSystem`
/// does.
SafetensorsFile read_safetensors(const io::FileSystem& files, const io::Path& path,
                                 const std::optional<Seal>& expected = std::nullopt);

/// Writes what `save_safetensors` writes, piece by piece, without a second copy of tensors that are
/// contiguous on the CPU. Neither syncs nor closes `file`. Throws as `save_safetensors`.
Seal stream_safetensors(io::WritableFile& file, std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata = {});

/// The size and the checksum of a file, read in pieces.
Seal seal_of(const io::FileSystem& files, const io::Path& path);

/// Eight hexadecimal digits, as in manifests.
std::string to_hex(std::uint32_t crc32c);

}  // namespace brigade::checkpoint
