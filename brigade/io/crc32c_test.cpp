#include "brigade/io/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/io/file_system.h"

namespace brigade::io {
namespace {

std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// The first four lines are the examples of RFC 3720, B.4.
TEST(Crc32c, MatchesTheKnownChecksums) {
  std::string rising(32, '\0');
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  const std::string falling(rising.rbegin(), rising.rend());
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(crc32c(as_bytes(rising)), 0x46dd794eu);
  EXPECT_EQ(crc32c(as_bytes(falling)), 0x113fdb5cu);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, TablesAndInstructionAgreeOnEveryLengthAndStart) {
  const std::string bytes = noise(300);
  for (std::size_t size = 0; size <= 70; ++size) {
    for (std::size_t start = 0; start < 9; ++start) {
      const auto piece = as_bytes(bytes).subspan(start, size);
      ASSERT_EQ(extend_crc32c(7, piece), extend_crc32c_by_table(7, piece)) << size << " " << start;
    }
  }
}

TEST(Crc32c, TablesAndInstructionAgreeOnSeveralLanes) {
  constexpr std::size_t kLanes = 3 * 2048;
  const std::string bytes = noise(3 * kLanes + 20);
  for (const std::size_t lanes : {kLanes, 2 * kLanes, 3 * kLanes}) {
    for (std::size_t size = lanes - 9; size <= lanes + 9; ++size) {
      const auto piece = as_bytes(bytes).subspan(1, size);
      ASSERT_EQ(extend_crc32c(7, piece), extend_crc32c_by_table(7, piece)) << size;
    }
  }
}

TEST(Crc32c, PiecesGiveTheChecksumOfTheWhole) {
  const std::string bytes = noise(100);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::uint32_t front = crc32c(as_bytes(bytes).first(cut));
    ASSERT_EQ(extend_crc32c(front, as_bytes(bytes).subspan(cut)), crc32c(as_bytes(bytes)));
    ASSERT_EQ(extend_crc32c_by_table(front, as_bytes(bytes).subspan(cut)), crc32c(as_bytes(bytes)));
  }
}

TEST(Crc32c, MaskRotatesAndAdds) {
  EXPECT_EQ(mask_crc32c(0), 0xa282ead8u);
  EXPECT_EQ(mask_crc32c(0x00008000u), 0xa282ead9u);  // bit 15 becomes bit 0
  EXPECT_EQ(mask_crc32c(1), 0xa282ead8u + (1u << 17));
}

}  // namespace
}  // namespace brigade::io
