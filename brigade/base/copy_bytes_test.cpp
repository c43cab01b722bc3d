#include "brigade/base/copy_bytes.h"

#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace brigade::base
