#include "brigade/machine/core_set.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::machine {
namespace {

TEST(CoreSet, WritesRisingRanges) {
  EXPECT_EQ(CoreSet({8, 3, 0, 2, 1, 3}).to_string(), "0-3,8");
  EXPECT_EQ(CoreSet({5}).to_string(), "5");
  EXPECT_EQ(CoreSet({0, 1, 3, 4}).to_string(), "0-1,3-4");
  EXPECT_EQ(CoreSet().to_string(), "");
}

TEST(CoreSet, ReadsBackWhatItWrites) {
  for (const char* text : {"", "0", "0-3,8", "1,3,5-6"})
    EXPECT_EQ(CoreSet::parse(text).to_string(), text);
  EXPECT_EQ(CoreSet::parse(" 0-1\n"), CoreSet({0, 1}));
}

TEST(CoreSet, RefusesWhatIsNoList) {
  for (const char* text : {",", "0,", "a", "3-1", "-1", "0-", "-", "1--2", "0-99999999", "0 1"}) {
    EXPECT_THROW(CoreSet::parse(text), Error) << text;
  }
  EXPECT_THROW(CoreSet({-1}), Error);
}

TEST(CoreSet, IntersectsAndContains) {
  const CoreSet both = CoreSet({0, 1, 2}).intersection(CoreSet({1, 2, 3}));
  EXPECT_EQ(both, CoreSet({1, 2}));
  EXPECT_TRUE(both.contains(2));
  EXPECT_FALSE(both.contains(0));
}

}  // namespace
}  // namespace brigade::machine
