#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "brigade/io/crc32c.h"

// The framing shared by the writer and the reader of records (docs/formats.md, "Records").
// Internal.
namespace brigade::io::record_framing {

inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::size_t kSumBytes = 4;
inline constexpr std::size_t kHeadBytes = kLengthBytes + kSumBytes;

/// Fills `bytes` with the lowest bytes of `value`, in little-endian order.
inline void store_little_endian(std::uint64_t value, std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
}

/// Of up to 8 bytes.
inline std::uint64_t load_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, bytes.data(), bytes.size());
  } else {
    for (std::size_t i = bytes.size(); i > 0; --i) {
      value = value << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
    }
  }
  return value;
}

inline std::uint32_t stored_sum(std::span<const std::byte> bytes) {
  return mask_crc32c(crc32c(bytes));
}

}  // namespace brigade::io::record_framing
