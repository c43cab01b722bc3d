#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace brigade::io {

/// CRC-32C (Castagnoli's polynomial, as iSCSI and TFRecord use it) of `bytes`. It finds broken
/// bytes, not forged ones. Uses the processor's instruction where there is one.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The sum of what `crc` is the sum of, followed by `bytes`: for bytes that come in pieces. The sum
/// of nothing is 0.
std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

/// The same by tables alone, which is what other processors get: so that tests can compare.
std::uint32_t extend_crc32c_by_table(std::uint32_t crc, std::span<const std::byte> bytes);

/// What TFRecord stores in place of a sum, because the sum of bytes that contain their own sum says
/// little: the sum turned by 15 bits, plus a constant.
std::uint32_t mask_crc32c(std::uint32_t crc);

}  // namespace brigade::io
