#include "brigade/summary/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::summary {
namespace {

TEST(Utf8, AcceptsTheBordersOfEveryLength) {
  for (const char* text : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf",
                           "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82!"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string("a\0b", 3)));
}

TEST(Utf8, RefusesInvalidText) {
  for (const char* text :
       {"\x80", "\xff", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe2\x82",
        "\xe2\x82(", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xf0\x9f\x99", "\xf0\x9f\x99\xc2", "abc\xe9"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Utf8, CheckNamesTheText) {
  try {
    check_utf8("\xff", "the tag");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(std::string(error.what()).starts_with("the tag is not UTF-8"));
  }
}

}  // namespace
}  // namespace brigade::summary
