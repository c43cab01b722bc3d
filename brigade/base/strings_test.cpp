#include "brigade/base/strings.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <ostream>

namespace named {
enum class Color { kRed };
std::string_view to_string(Color) {
  return "red";
}
struct Streamed {};
std::ostream& operator<<(std::ostream& out, const Streamed&) {
  return out << "streamed";
}
}  // namespace named

namespace brigade::base {
namespace {

TEST(Strings, ErrorTextHasNoStackTrace) {
  EXPECT_EQ(
      without_stack_trace("size 3 is not 4\nException raised from f at g.cpp:1 (most recent call "
                          "first):\nframe #0: h\n"),
      "size 3 is not 4");
  EXPECT_EQ(without_stack_trace(" two\nlines \n"), "two\nlines");
}

TEST(StrCat, WritesEachKindOfValue) {
  const char* pointer = "p";
  EXPECT_EQ(str_cat(), "");
  EXPECT_EQ(str_cat("a", std::string("b"), std::string_view("c"), 'd', pointer), "abcdp");
  EXPECT_EQ(str_cat(true, false), "truefalse");
  EXPECT_EQ(str_cat(-3, " ", 4u, " ", std::int8_t{5}), "-3 4 5");
  EXPECT_EQ(str_cat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(str_cat(0.1, " ", 1.5f, " ", 1e300), "0.1 1.5 1e+300");
  EXPECT_EQ(str_cat(std::filesystem::path("/a b")), "/a b");
  EXPECT_EQ(str_cat(named::Color::kRed, named::Streamed()), "redstreamed");
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(std::array<std::string, 1>{"x"}, ", "), "x");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split(",", ','), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Trim, RemovesSpaceAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("ab"), "ab");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ParseInt, ReadsWholeNumbersOnly) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-42"), -42);
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* bad : {"", "-", "+1", " 1", "1 ", "1x", "0x1", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
  }
}

TEST(LowerCase, ChangesOnlyTheLettersOfAscii) {
  EXPECT_EQ(lower_case("Worker-0.EXAMPLE.org"), "worker-0.example.org");
  EXPECT_EQ(lower_case("\xc3\x84@[`{"), "\xc3\x84@[`{");
  EXPECT_EQ(lower_case(""), "");
}

TEST(ToHex, WritesTwoDigitsForEachByte) {
  EXPECT_EQ(to_hex(std::as_bytes(std::span(std::string_view("\x00\x0f\xa0\xff", 4)))), "000fa0ff");
  EXPECT_EQ(to_hex({}), "");
}

TEST(ParseIndex, TakesDigitsThatFit) {
  EXPECT_EQ(parse_index("0"), 0);
  EXPECT_EQ(parse_index("007"), 7);
  EXPECT_EQ(parse_index("2147483647"), 2147483647);
  for (const char* text :
       {"", "-1", "-0", "+1", " 1", "1x", "2147483648", "99999999999999999999"}) {
    EXPECT_EQ(parse_index(text), std::nullopt) << text;
  }
}

TEST(HumanBytes, UsesTheUnitThatReadsBest) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> flags = {"devices", "dataset", "data-dir", "seed"};
  EXPECT_EQ(nearest("device", flags), "devices");
  EXPECT_EQ(nearest("DATASET", flags), "dataset");
  EXPECT_EQ(nearest("datadir", flags), "data-dir");
  EXPECT_EQ(nearest("sead", flags), "seed");
  EXPECT_EQ(nearest("sede", flags), "seed");
}

TEST(Nearest, FindsNothingFarAway) {
  EXPECT_EQ(nearest("momentum", {"devices", "seed"}), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
  EXPECT_EQ(nearest("abc", {"axy"}), std::nullopt);
}

TEST(Nearest, PrefersTheEarlierOfEquals) {
  EXPECT_EQ(nearest("ab", {"ac", "ad"}), "ac");
}

}  // namespace
}  // namespace brigade::base
