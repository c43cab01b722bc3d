#include "brigade/base/text_piece.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace brigade::base {
namespace {

template <class T>
std::string text_of(const T& value) {
  std::string text = "<";
  TextPiece(value).append_to(text);
  return text + ">";
}

template <class... Number>
void expect_limits(const Number&... unused) {
  ((void)unused, ...);
  (EXPECT_EQ(text_of(std::numeric_limits<Number>::min()),
             "<" + std::to_string(std::numeric_limits<Number>::min()) + ">"),
   ...);
  (EXPECT_EQ(text_of(std::numeric_limits<Number>::max()),
             "<" + std::to_string(std::numeric_limits<Number>::max()) + ">"),
   ...);
}

TEST(TextPiece, WritesIntegersOfEachType) {
  expect_limits(std::int8_t{}, std::uint8_t{}, std::int16_t{}, std::uint16_t{}, std::int32_t{},
                std::uint32_t{}, long{}, 0UL, 0LL, 0ULL);
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
