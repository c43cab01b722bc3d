#include "brigade/io/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace brigade::io {
namespace {

constexpr std::size_t kDeepest = 3;

std::string json_refusal(std::string_view text) {
  try {
    parse_strict_json(text, kDeepest,
                      [](const std::string& why) { throw std::runtime_error(why); });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(StrictJson, ReadsValidText) {
  EXPECT_EQ(json_refusal(R"({"a": [1, {"b": 2}], "b": 3})"), "none");
}

TEST(StrictJson, NamesTheLineAndColumnOfASyntaxError) {
  EXPECT_THAT(json_refusal("{\n  \"a\": [1,]}"),
              testing::StartsWith("it is not JSON: line 2, column 11: syntax error"));
}

// The parser itself ignores both: what follows the NUL would never be parsed.
TEST(StrictJson, RefusesANulAndAByteOrderMark) {
  using std::string_literals::operator""s;
  EXPECT_EQ(json_refusal("{}\0garbage"s), "it is not JSON: byte 2 is NUL");
  EXPECT_EQ(json_refusal("{}\0"s), "it is not JSON: byte 2 is NUL");
  EXPECT_EQ(json_refusal("\0{}"s), "it is not JSON: byte 0 is NUL");
  EXPECT_THAT(json_refusal("\xef\xbb\xbf{}"), testing::HasSubstr("byte-order mark"));
  EXPECT_EQ(json_refusal("{}\n "), "none");
  EXPECT_THAT(json_refusal("{} {}"), testing::StartsWith("it is not JSON: line 1"));
}

TEST(StrictJson, AMessageShowsTheBeginningOfALongKey) {
  const std::string key(100'000, 'k');
  EXPECT_LT(json_refusal("{\"" + key + "\": 1, \"" + key + "\": 2}").size(), 300u);
  EXPECT_LT(json_refusal("[\"" + key + "]").size(), 500u);
}

TEST(StrictJson, RefusesAKeyThatOccursTwiceInOneObject) {
  EXPECT_EQ(json_refusal(R"({"a": {"b": 1, "b": 2}})"), "the key 'b' occurs twice");
}

TEST(StrictJson, RefusesDeepNesting) {
  EXPECT_EQ(json_refusal("[[[1]]]"), "none");
  EXPECT_EQ(json_refusal("[[[[1]]]]"), "it is nested too deeply");
}

// In linear, not quadratic time: untrusted files may have many.
TEST(StrictJson, TakesAHundredThousandEntries) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"v" + std::to_string(i) + "\": {\"a\": [1]},";
  EXPECT_EQ(json_refusal(text + "\"last\": 1}"), "none");
  EXPECT_EQ(json_refusal(text + "\"v7\": 1}"), "the key 'v7' occurs twice");
}

}  // namespace
}  // namespace brigade::io
