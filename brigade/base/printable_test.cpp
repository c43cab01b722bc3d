#include "brigade/base/printable.h"

#include <gtest/gtest.h>

#include <iomanip>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

using std::string_literals::operator""s;

TEST(Quoted, IsMeantAlsoWhereTheStandardLibrarysIsVisible) {
  std::string text = "it\n";
  const std::string constant = text;
  for (const std::string& found : {std::string(quoted(text)), std::string(quoted(constant)),
                                   std::string(quoted(std::string_view(text))),
                                   std::string(quoted("it\n")), std::string(quoted(text + ""))})
    EXPECT_EQ(found, "'it\\n'");
}

TEST(Printable, LeavesWhatIsShown) {
  for (const std::string text :
       {"", "conv1/weights", "a b", "C:\\x", "\\x1b", "größe", "重み", "🚀"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_lines(text), text);
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(printable("a\nb\rc\td\0e\x7f"s), "a\\nb\\rc\\td\\x00e\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\x85"),
            "\\u009b31m\\u0085");  // C1, as UTF-8
}

TEST(Printable, EscapesWhatChangesHowTheRestIsShown) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u200bd\u2028e\ufefff\u061cg\u00adh"),
            "a\\u202eb\\u2066c\\u200bd\\u2028e\\ufefff\\u061cg\\u00adh");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xe9t\xc3"), "\\xe9t\\xc3");         // Latin-1; cut short
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // too long a form of 1b
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair of UTF-16
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, EscapingTwiceIsEscapingOnce) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += "\u202e\U000e0001é";
  EXPECT_EQ(printable(printable(all)), printable(all));
  EXPECT_EQ(printable_lines(printable(all)), printable(all));
}

TEST(Printable, LinesKeepTheirEnds) {
  EXPECT_EQ(printable_lines("a\tb\r\n\x1b[1mc\n"), "a\tb\\r\n\\x1b[1mc\n");
}

TEST(Quoted, ShowsAValue) {
  EXPECT_EQ(base::quoted("many"), "'many'");
  EXPECT_EQ(base::quoted(""), "''");
  EXPECT_EQ(base::quoted("a\x1b[1m\n"), "'a\\x1b[1m\\n'");
  EXPECT_EQ(shortened("[1, 2]"), "[1, 2]");
}

TEST(Quoted, CutsALongValue) {
  EXPECT_EQ(base::quoted(std::string(200, 'a')), "'" + std::string(200, 'a') + "'");
  EXPECT_EQ(base::quoted(std::string(100'000, 'a')),
            "'" + std::string(200, 'a') + "...' (100000 bytes)");
  EXPECT_EQ(shortened(std::string(201, 'a')), std::string(200, 'a') + "... (201 bytes)");
}

TEST(Quoted, NeverCutsACharacter) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "é";
  EXPECT_EQ(base::quoted(text), "'" + text.substr(0, 400) + "...' (600 bytes)");
}

TEST(Listed, ShowsTheFirstOfMany) {
  std::vector<int> ranks = {1, 2, 3};
  EXPECT_EQ(listed(ranks, ", "), "1, 2, 3");
  EXPECT_EQ(listed(std::vector<int>(), ", "), "");
  const auto rank = [](int number) { return "rank " + std::to_string(number); };
  EXPECT_EQ(listed(ranks, ", ", rank, 2), "rank 1, rank 2 and 1 more");
  EXPECT_EQ(listed(ranks, ", ", rank, 3), "rank 1, rank 2, rank 3");
  ranks.resize(1'000'000);
  EXPECT_LT(listed(ranks, ", ").size(), 100u);
}

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
  EXPECT_NO_THROW(check_utf8("loss", "the tag ", 3));
  try {
    check_utf8("\xff", "the tag ", 3);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("the tag 3 is not UTF-8"));
  }
}

}  // namespace
}  // namespace brigade::base
