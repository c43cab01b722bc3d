#include "brigade/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace brigade::base {
namespace {

TEST(Environment, DistinguishesSetEmptyAndMissing) {
  ASSERT_EQ(::setenv("BRIGADE_TEST_VALUE", "x y", 1), 0);
  EXPECT_EQ(environment("BRIGADE_TEST_VALUE"), "x y");
  ASSERT_EQ(::setenv("BRIGADE_TEST_VALUE", "", 1), 0);
  EXPECT_EQ(environment("BRIGADE_TEST_VALUE"), "");
  ASSERT_EQ(::unsetenv("BRIGADE_TEST_VALUE"), 0);
  EXPECT_EQ(environment("BRIGADE_TEST_VALUE"), std::nullopt);
}

TEST(HostName, IsNeverEmpty) {
  EXPECT_FALSE(host_name().empty());
}

}  // namespace
}  // namespace brigade::base
