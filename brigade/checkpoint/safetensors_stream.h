#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// What a file's content is known by. CRC-32C finds broken bytes, not forged ones, and takes a
/// small part of the time of SHA-256 (docs/formats.md).
struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Writes what `save_safetensors` writes, piece by piece, with no second copy of tensors that lie
/// contiguous on the CPU. Neither syncs nor closes `file`. Throws as `save_safetensors`.
Seal stream_safetensors(io::WritableFile& file, std::span<const NamedTensor> tensors,
                        const std::map<std::string, std::string>& metadata = {});

/// Reads what `read_safetensors` reads, straight into the tensors. With `expected`, throws
/// `Error{kDataLoss}` naming the file also if it has another size or another sum.
SafetensorsFile read_safetensors_stream(const io::FileSystem& files, const io::Path& path,
                                        const std::optional<Seal>& expected);

/// The size and the sum of a file, read in pieces.
Seal seal_of(const io::FileSystem& files, const io::Path& path);

/// Eight hexadecimal digits, as manifests have them.
std::string to_hex(std::uint32_t crc32c);

}  // namespace brigade::checkpoint
