#include "brigade/base/printable.h"

#include <algorithm>
#include <array>
#include <optional>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

struct Range {
  char32_t first, last;
};

// Unicode's categories Cc, Cf, Zl and Zp.
constexpr std::array<Range, 21> kNotShown{{
    {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},
    {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
    {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
    {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
    {0xe0000, 0xe007f},
}};

bool is_shown(char32_t point) {
  const auto range = std::lower_bound(kNotShown.begin(), kNotShown.end(), point,
                                      [](const Range& r, char32_t p) { return r.last < p; });
  return range == kNotShown.end() || point < range->first;
}

struct Decoded {
  char32_t point = 0;
  std::size_t bytes = 0;
};

/// The character that `text` begins with, if its bytes are UTF-8 in its one allowed form.
std::optional<Decoded> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return Decoded{lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return std::nullopt;
  char32_t point = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    point = point << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < kLeast[bytes] || point > 0x10ffff || is_surrogate) return std::nullopt;
  return Decoded{point, bytes};
}

std::string hexadecimal(char32_t point, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[(point >> shift) & 15];
  }
  return text;
}

std::string escape_of(char32_t point) {
  switch (point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (point < 0x80) return "\\x" + hexadecimal(point, 2);
  return point < 0x10000 ? "\\u" + hexadecimal(point, 4) : "\\U" + hexadecimal(point, 8);
}

std::string escaped(std::string_view text, std::string_view left_alone) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    if (!character) {
      result += "\\x" + hexadecimal(static_cast<unsigned char>(text.front()), 2);
    } else if (is_shown(character->point) || left_alone.find(text.front()) != text.npos) {
      result += text.substr(0, bytes);
    } else {
      result += escape_of(character->point);
    }
    text.remove_prefix(bytes);
  }
  return result;
}

/// The bytes of the first `count` characters, a broken one being one byte; all of a shorter text.
std::size_t bytes_of(std::string_view text, std::size_t count) {
  std::size_t bytes = 0;
  for (; count > 0 && bytes < text.size(); --count) {
    const auto character = first_character(text.substr(bytes));
    bytes += character ? character->bytes : 1;
  }
  return bytes;
}

std::string cut(std::string_view value, std::string_view quote) {
  const std::size_t shown = bytes_of(value, kMostQuoted);
  std::string text = str_cat(quote, printable(value.substr(0, shown)));
  if (shown == value.size()) return str_cat(text, quote);
  return str_cat(text, "...", quote, " (", value.size(), " bytes)");
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, "");
}

std::string printable_lines(std::string_view text) {
  return escaped(text, "\n\t");
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto character = first_character(text);
    if (!character) return false;
    text.remove_prefix(character->bytes);
  }
  return true;
}

void check_utf8(std::string_view text, std::string_view what) {
  if (is_utf8(text)) return;
  throw Error(ErrorCode::kInvalidArgument, what,
              " is not UTF-8, so no other program could read it as text");
}

std::string quoted(std::string_view value) {
  return cut(value, "'");
}

std::string shortened(std::string_view value) {
  return cut(value, "");
}

}  // namespace brigade::base
