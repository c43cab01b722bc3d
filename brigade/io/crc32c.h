#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace brigade::io {

/// CRC-32C (Castagnoli's polynomial, as iSCSI and TFRecord use it) of `bytes`. It detects corrupt
/// bytes, not forged ones. Uses the processor's instruction if available.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// Extends `crc`, the checksum of some bytes, by the bytes that follow them. The checksum of no
/// bytes is 0.
std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

/// The same by tables only, as on processors without the instruction; for comparison in tests.
std::uint32_t extend_crc32c_by_table(std::uint32_t crc, std::span<const std::byte> bytes);

/// The masked checksum that TFRecord stores, because checksums of data that contains checksums are
/// weak: the checksum rotated by 15 bits, plus a constant.
std::uint32_t mask_crc32c(std::uint32_t crc);

}  // namespace brigade::io
