#include "brigade/rpc/token.h"

#include <gtest/gtest.h>

#include <set>

namespace brigade::rpc {
namespace {

TEST(Token, NoTwoAreEqual) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(make_token());
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_EQ(tokens.begin()->size(), kTokenBytes);
}

TEST(Token, OnlyTheWholeTokenIsTheSame) {
  const std::string token = make_token();
  std::string other = token;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_TRUE(is_same_token(token, std::string(token)));
  EXPECT_FALSE(is_same_token(token, other));
  EXPECT_FALSE(is_same_token(token, token.substr(1)));
  EXPECT_FALSE(is_same_token(token, ""));
  EXPECT_FALSE(is_same_token("", ""));
}

}  // namespace
}  // namespace brigade::rpc
