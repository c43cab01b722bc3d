#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// Size and checksum of a file. CRC-32C detects corrupt bytes, not forged ones, and takes a small
/// part of the time of SHA-256 (docs/formats.md).
struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Writes what `save_safetensors` writes, piece by piece, without a second copy of tensors that are
/// contiguous on the CPU. Neither syncs nor closes `file`. Throws as `save_safetensors`.
Seal stream_safetensors(io::WritableFile& file, std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata = {});

/// Reads what `read_safetensors` reads, directly into the tensors. With `expected`, throws
/// `Error{kDataLoss}` naming the file also if its size or checksum differs.
SafetensorsFile read_safetensors_stream(const io::FileSystem& files, const io::Path& path,
                                        const std::optional<Seal>& expected);

/// The size and the checksum of a file, read in pieces.
Seal seal_of(const io::FileSystem& files, const io::Path& path);

/// Eight hexadecimal digits, as in manifests.
std::string to_hex(std::uint32_t crc32c);

}  // namespace brigade::checkpoint
