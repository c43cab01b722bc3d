#include "brigade/concurrency/linked_token.h"

#include <gtest/gtest.h>

namespace brigade::concurrency {
namespace {

TEST(LinkedToken, IsCancelledWithTheOuterOne) {
  const CancelToken outer;
  const LinkedToken linked(outer);
  EXPECT_FALSE(linked.token().is_cancelled());
  outer.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
  EXPECT_TRUE(LinkedToken(outer).token().is_cancelled()) << "also of one that already is";
}

TEST(LinkedToken, LeavesTheOuterOneAlone) {
  const CancelToken outer;
  const LinkedToken linked(outer);
  linked.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
  EXPECT_FALSE(outer.is_cancelled());
}

TEST(LinkedToken, WithoutAnOuterTokenIsIndependent) {
  const LinkedToken linked(std::nullopt);
  EXPECT_FALSE(linked.token().is_cancelled());
  linked.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
}

TEST(LinkedToken, OutlivesItsLink) {
  const CancelToken outer;
  CancelToken copy;
  {
    const LinkedToken linked(outer);
    copy = linked.token();
  }
  outer.cancel();
  EXPECT_FALSE(copy.is_cancelled());
}

}  // namespace
}  // namespace brigade::concurrency
