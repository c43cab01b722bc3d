#include "brigade/io/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

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

}  // namespace
}  // namespace brigade::io
