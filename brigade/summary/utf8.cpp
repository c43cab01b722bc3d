#include "brigade/summary/utf8.h"

#include <cstddef>
#include <cstdint>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::summary {
namespace {

/// The number of bytes of a character that begins with `lead`; 0 if `lead` is invalid.
std::size_t length_from(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;  // c0 and c1 would be long forms of ASCII
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

/// Whether `second` may follow `lead`: some lead bytes allow only a part of 80..bf.
bool may_follow(std::uint8_t lead, std::uint8_t second) {
  std::uint8_t lowest = 0x80;
  std::uint8_t highest = 0xbf;
  if (lead == 0xe0) lowest = 0xa0;   // else a long form
  if (lead == 0xed) highest = 0x9f;  // else a surrogate
  if (lead == 0xf0) lowest = 0x90;   // else a long form
  if (lead == 0xf4) highest = 0x8f;  // else beyond U+10FFFF
  return second >= lowest && second <= highest;
}

/// The length of the character at the front of `text`; 0 if it is incomplete or invalid.
std::size_t front_length(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t length = length_from(byte(0));
  if (length == 0 || length > text.size()) return 0;
  if (length > 1 && !may_follow(byte(0), byte(1))) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = front_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void check_utf8(std::string_view text, std::string_view what) {
  if (is_utf8(text)) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat(what, " is not UTF-8, so no other program could read it as text"));
}

}  // namespace brigade::summary
