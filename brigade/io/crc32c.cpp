#include "brigade/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace brigade::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the loads below expect it");

constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // of Castagnoli, bits reversed
constexpr std::size_t kSlices = 8;

using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

/// Table k gives the effect of a byte on the checksum after k more bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint64_t load8(const std::byte* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(__x86_64__)
// The instruction has a latency of three cycles and a throughput of one per cycle, so three
// consecutive lanes of bytes are processed in parallel and then combined.
constexpr std::size_t kLane = 2048;

/// Table k maps byte k of a checksum to its value after a lane of zeros. The map is linear, so the
/// results of all bytes are combined by XOR.
constexpr Tables make_lane_tables() {
  std::array<std::uint32_t, 32> of_bit{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t sum = 1u << bit;
    for (std::size_t i = 0; i < kLane; ++i) sum = (sum >> 8) ^ kTables[0][sum & 0xff];
    of_bit[bit] = sum;
  }
  Tables tables{};
  for (std::size_t byte_index = 0; byte_index < 4; ++byte_index) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) tables[byte_index][byte] ^= of_bit[8 * byte_index + bit];
      }
    }
  }
  return tables;
}

constexpr Tables kLaneTables = make_lane_tables();

std::uint32_t over_a_lane(std::uint32_t sum) {
  return kLaneTables[0][sum & 0xff] ^ kLaneTables[1][sum >> 8 & 0xff] ^
         kLaneTables[2][sum >> 16 & 0xff] ^ kLaneTables[3][sum >> 24];
}

/// The processor's own prefetching does not keep up with lanes that end after half a page.
void prefetch_next_lanes(const std::byte* bytes) {
  for (std::size_t lane = 3; lane < 6; ++lane) {  // beyond the end of the bytes it does nothing
    const auto address = reinterpret_cast<std::uintptr_t>(bytes) + lane * kLane;
    _mm_prefetch(reinterpret_cast<const char*>(address), _MM_HINT_T0);
  }
}

[[gnu::target("sse4.2")]] std::uint32_t extend_by_three_lanes(std::uint32_t sum,
                                                              const std::byte* bytes) {
  constexpr std::size_t kCacheLine = 64;
  std::uint64_t first = sum, second = 0, third = 0;
  for (std::size_t line = 0; line < kLane; line += kCacheLine) {
    prefetch_next_lanes(bytes + line);
    for (std::size_t i = line; i < line + kCacheLine; i += 8) {
      first = _mm_crc32_u64(first, load8(bytes + i));
      second = _mm_crc32_u64(second, load8(bytes + kLane + i));
      third = _mm_crc32_u64(third, load8(bytes + 2 * kLane + i));
    }
  }
  const std::uint32_t joined =
      over_a_lane(static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
  return over_a_lane(joined) ^ static_cast<std::uint32_t>(third);
}

[[gnu::target("sse4.2")]] std::uint32_t extend_by_instruction(std::uint32_t crc,
                                                              std::span<const std::byte> bytes) {
  std::uint32_t long_part = ~crc;
  for (; bytes.size() >= 3 * kLane; bytes = bytes.subspan(3 * kLane))
    long_part = extend_by_three_lanes(long_part, bytes.data());
  std::uint64_t sum = long_part;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) sum = _mm_crc32_u64(sum, load8(bytes.data()));
  auto narrow = static_cast<std::uint32_t>(sum);
  for (const std::byte byte : bytes) narrow = _mm_crc32_u8(narrow, std::to_integer<unsigned>(byte));
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t extend_crc32c_by_table(std::uint32_t crc, std::span<const std::byte> bytes) {
  std::uint32_t sum = ~crc;
  for (; bytes.size() >= kSlices; bytes = bytes.subspan(kSlices)) {
    const std::uint64_t word = load8(bytes.data()) ^ sum;
    sum = 0;
    for (std::size_t i = 0; i < kSlices; ++i) {
      sum ^= kTables[kSlices - 1 - i][(word >> (8 * i)) & 0xff];
    }
  }
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ kTables[0][(sum ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  }
  return ~sum;
}

std::uint32_t extend_crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return extend_by_instruction(crc, bytes);
#endif
  return extend_crc32c_by_table(crc, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  return extend_crc32c(0, bytes);
}

std::uint32_t mask_crc32c(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8u;
}

}  // namespace brigade::io
