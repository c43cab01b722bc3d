#include "brigade/launch/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CommandLine, PlaceholdersAreReplacedEverywhere) {
  EXPECT_THAT(expand_placeholders({"a/{rank}/b{rank}", "{world_size}", "{x}"}, 3, 8),
              ElementsAre("a/3/b3", "8", "{x}"));
}

TEST(CommandLine, SplitsWordsAsAShellDoes) {
  EXPECT_THAT(split_words("  --rate 0.1\t--name 'a b'"),
              ElementsAre("--rate", "0.1", "--name", "a b"));
  EXPECT_THAT(split_words(R"(a"b c"d \"x\ y '\')"), ElementsAre("ab cd", "\"x y", "\\"));
  EXPECT_THAT(split_words("'' \"\""), ElementsAre("", ""));
  EXPECT_THAT(split_words("  "), IsEmpty());
}

TEST(CommandLine, RefusesAnUnterminatedQuote) {
  EXPECT_THROW(split_words("a 'b"), Error);
}

TEST(CommandLine, AFileThatCannotBeReadIsNamed) {
  try {
    read_argument_lines("/nowhere/lines");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nowhere/lines"));
  }
}

}  // namespace
}  // namespace brigade::launch
