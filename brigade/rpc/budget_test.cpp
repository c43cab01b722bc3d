#include "brigade/rpc/budget.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace brigade::rpc {
namespace {

TEST(Budget, GivesNoMoreThanItHasUntilPartsAreGivenBack) {
  Budget budget(10);
  std::optional<Budget::Part> first = budget.take(6);
  ASSERT_TRUE(first);
  EXPECT_FALSE(budget.take(5));
  std::optional<Budget::Part> second = budget.take(4);
  ASSERT_TRUE(second);
  EXPECT_FALSE(budget.take(1));
  EXPECT_EQ(budget.taken(), 10U);
  first.reset();
  EXPECT_EQ(budget.taken(), 4U);
  EXPECT_TRUE(budget.take(6));
}

TEST(Budget, AMovedPartIsGivenBackOnce) {
  Budget budget(10);
  {
    std::optional<Budget::Part> part = budget.take(7);
    ASSERT_TRUE(part);
    const Budget::Part other = std::move(*part);
    part.reset();
    EXPECT_FALSE(budget.take(7));
  }
  EXPECT_TRUE(budget.take(10));
  EXPECT_FALSE(budget.take(11));
}

}  // namespace
}  // namespace brigade::rpc
