#include "brigade/io/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace brigade::io {
namespace {

constexpr std::size_t kDeepest = 3;

std::string refusal(std::string_view text) {
  try {
    parse_strict_json(text, kDeepest,
                      [](const std::string& why) { throw std::runtime_error(why); });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(StrictJson, ReadsWhatIsValid) {
  EXPECT_EQ(refusal(R"({"a": [1, {"b": 2}], "b": 3})"), "none");
}

TEST(StrictJson, SaysTheLineAndColumnOfASyntaxError) {
  EXPECT_THAT(refusal("{\n  \"a\": [1,]}"),
              testing::StartsWith("it is not JSON: line 2, column 11: syntax error"));
}

TEST(StrictJson, RefusesAKeyThatOccursTwiceInOneObject) {
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "b": 2}})"), "the key 'b' occurs twice");
}

TEST(StrictJson, RefusesWhatIsNestedTooDeeply) {
  EXPECT_EQ(refusal("[[[1]]]"), "none");
  EXPECT_EQ(refusal("[[[[1]]]]"), "it is nested too deeply");
}

// In a time that grows with their number, not with its square: files of strangers have many.
TEST(StrictJson, TakesAHundredThousandEntries) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"v" + std::to_string(i) + "\": {\"a\": [1]},";
  EXPECT_EQ(refusal(text + "\"last\": 1}"), "none");
  EXPECT_EQ(refusal(text + "\"v7\": 1}"), "the key 'v7' occurs twice");
}

}  // namespace
}  // namespace brigade::io
