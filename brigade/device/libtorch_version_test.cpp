#include "brigade/device/libtorch_version.h"

#include <gtest/gtest.h>
#include <torch/headeronly/version.h>

namespace brigade::device {
namespace {

std::uint64_t version(std::uint64_t major, std::uint64_t minor, std::uint64_t patch) {
  return major << 56 | minor << 48 | patch << 40;
}

TEST(LibtorchVersion, OfOneSeriesCanReplaceEachOther) {
  EXPECT_TRUE(is_same_torch_series(version(2, 11, 0), version(2, 11, 0)));
  EXPECT_TRUE(is_same_torch_series(version(2, 11, 0), version(2, 11, 1)));
  EXPECT_FALSE(is_same_torch_series(version(2, 11, 0), version(2, 10, 0)));
  EXPECT_FALSE(is_same_torch_series(version(2, 11, 0), version(2, 12, 0)));
  EXPECT_FALSE(is_same_torch_series(version(2, 11, 0), version(3, 11, 0)));
}

TEST(LibtorchVersion, OfThisProcessIsThatOfTheHeaders) {
  EXPECT_EQ(loaded_torch_version(), TORCH_ABI_VERSION);
  EXPECT_NO_THROW(check_torch_version());
}

}  // namespace
}  // namespace brigade::device
