#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "brigade/base/strings.h"

namespace brigade::base {

/// Escapes `text` from any source for a terminal or a log: control characters (C0, DEL and C1, and
/// so every escape sequence), characters that change how others are shown (bidirectional overrides,
/// zero-width and other format characters, line and paragraph separators) and bytes that are not
/// UTF-8 become "\n", "\x1b", "\u202e", "\U000e0001". A backslash is not escaped, so escaping twice
/// changes nothing. Thread-safety: a pure function, as are the others here.
std::string printable(std::string_view text);

/// The same for text of several lines: line feeds and tabs are kept. Only for text whose line
/// breaks the program made: escape external text with `printable` before inserting it.
std::string printable_lines(std::string_view text);

/// Whether `text` is valid UTF-8: complete characters, shortest forms, no surrogates, nothing
/// beyond U+10FFFF. Strings of protobuf and JSON must be; readers in other languages refuse
/// anything else.
bool is_utf8(std::string_view text);

/// Throws kInvalidArgument, naming `what`, unless `text` is UTF-8.
void check_utf8(std::string_view text, std::string_view what);
/// The same with the pieces of `what`, which are put together only for the error.
template <class First, class Second, class... More>
void check_utf8(std::string_view text, const First& first, const Second& second,
                const More&... more) {
  if (!is_utf8(text)) check_utf8(text, std::string_view(str_cat(first, second, more...)));
}

/// The maximum number of characters of a value in an error.
inline constexpr std::size_t kMostQuoted = 200;

/// Formats a value for an error: escaped and in quotes; if it is longer than `kMostQuoted`
/// characters, its beginning and its length: 'aaaa...' (100000 bytes).
std::string quoted(std::string_view value);
// Where <iomanip> or <filesystem> is included, an unqualified call finds std::quoted as well, which
// would be the better match for these arguments.
inline std::string quoted(const std::string& value) {
  return quoted(std::string_view(value));
}
inline std::string quoted(std::string& value) {
  return quoted(std::string_view(value));
}
inline std::string quoted(const char* value) {
  return quoted(std::string_view(value));
}

/// The same without quotes, for values that are not text: a list, a number, JSON.
std::string shortened(std::string_view value);

/// The maximum number of elements of a list in an error.
inline constexpr std::size_t kMostListed = 20;

/// Formats a list for an error with the text of `describe` for each element. Of more than `most`
/// elements, shows the first ones and the number of the others: "1, 2, 3 and 997 more".
template <class Range, class Describe = std::identity>
std::string listed(const Range& range, std::string_view separator, const Describe& describe = {},
                   std::size_t most = kMostListed) {
  const auto count = static_cast<std::size_t>(std::size(range));
  std::string text;
  std::size_t shown = 0;
  for (const auto& element : range) {
    if (shown == most) break;
    if (shown++ > 0) text += separator;
    append_text(text, describe(element));
  }
  if (shown < count) text += str_cat(shown > 0 ? " and " : "", count - shown, " more");
  return text;
}

}  // namespace brigade::base
