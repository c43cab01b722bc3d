#include "brigade/base/copy_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace brigade::base {
namespace {

TEST(CopyBytes, CopiesAndTakesNullPointersForNothing) {
  std::array<char, 3> to{'a', 'b', 'c'};
  copy_bytes(to.data(), "xy", 2);
  EXPECT_EQ(to, (std::array<char, 3>{'x', 'y', 'c'}));
  copy_bytes(to.data(), nullptr, 0);
  copy_bytes(nullptr, to.data(), 0);
  EXPECT_EQ(to, (std::array<char, 3>{'x', 'y', 'c'}));
}

TEST(CopyPartBytes, CopiesTheSameBytesWhetherTheyAreFewOrMany) {
  constexpr std::size_t kMany = std::size_t{64} << 20;
  std::vector<unsigned char> from(20'000);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<unsigned char>(i * 7 + i / 256);
  const std::vector<unsigned char> empty(20'000, 0xee);
  for (const std::size_t whole : {std::size_t{0}, kMany}) {
    for (const std::size_t bytes : {0, 1, 63, 4095, 4096, 4097, 4160, 9001, 16384}) {
      for (const std::size_t to_offset : {0, 1, 16, 63}) {
        for (const std::size_t from_offset : {0, 1, 40}) {
          std::vector<unsigned char> to = empty, expected = empty;
          copy_part_bytes(to.data() + to_offset, from.data() + from_offset, bytes, whole);
          std::copy_n(from.data() + from_offset, bytes, expected.data() + to_offset);
          ASSERT_TRUE(to == expected) << bytes << " " << to_offset << " " << from_offset;
        }
      }
    }
  }
  copy_part_bytes(nullptr, nullptr, 0, kMany);
}

}  // namespace
}  // namespace brigade::base
