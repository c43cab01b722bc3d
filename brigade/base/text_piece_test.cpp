#include "brigade/base/text_piece.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::base {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::string text = "<";
  TextPiece(value).append_to(text);
  return text + ">";
}

template <class... Number>
std::vector<std::string> limits() {
  return {(text_of(std::numeric_limits<Number>::min()) +
           text_of(std::numeric_limits<Number>::max()))...};
}

TEST(TextPiece, WritesIntegersOfEachType) {
  EXPECT_EQ((limits<std::int8_t, std::uint8_t, short, unsigned short>()),
            (std::vector<std::string>{"<-128><127>", "<0><255>", "<-32768><32767>", "<0><65535>"}));
  const std::string signed_32 = "<-2147483648><2147483647>", unsigned_32 = "<0><4294967295>",
                    signed_64 = "<-9223372036854775808><9223372036854775807>",
                    unsigned_64 = "<0><18446744073709551615>";
  EXPECT_EQ((limits<int, unsigned, long, unsigned long, long long, unsigned long long>()),
            (std::vector<std::string>{signed_32, unsigned_32, signed_64, unsigned_64, signed_64,
                                      unsigned_64}));
}

TEST(TextPiece, WritesTheShortestTextThatReadsBack) {
  EXPECT_EQ(text_of(0.1F), "<0.1>");
  EXPECT_EQ(text_of(0.1), "<0.1>");
  EXPECT_EQ(text_of(0.5L), "<0.5>");
  EXPECT_EQ(text_of(static_cast<double>(0.1F)), "<0.10000000149011612>");
}

TEST(TextPiece, WritesCharactersWhateverHoldsThem) {
  const char* pointer = "text";
  for (const std::string& text : {text_of(pointer), text_of("text"), text_of(std::string(pointer)),
                                  text_of(std::string_view(pointer))})
    EXPECT_EQ(text, "<text>");
  EXPECT_EQ(text_of('c'), "<c>");
  EXPECT_EQ(text_of(std::string("with\0zero", 9)), std::string("<with\0zero>", 11));
}

TEST(TextPiece, RefersToTheValue) {
  int number = 1;
  const TextPiece piece(number);
  number = 2;
  std::string text;
  piece.append_to(text);
  piece.append_to(text);
  EXPECT_EQ(text, "22");
}

}  // namespace
}  // namespace brigade::base
