#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "brigade/base/strings.h"

namespace brigade::base {

/// `text` as a terminal or a log may be given it, wherever it comes from: control characters (C0,
/// DEL and C1, with them every escape sequence), characters that change how others are shown
/// (overrides of the writing direction, zero-width and other format characters, separators of lines
/// and paragraphs) and bytes that are not UTF-8 become "\n", "\x1b", "\u202e", "\U000e0001". A
/// backslash stays as it is, so what is printable already stays too, and escaping twice does no
/// harm. Thread-safety: a pure function, as are the others here.
std::string printable(std::string_view text);

/// The same for text of several lines: line feeds and tabs stay. Only for text whose lines the
/// program made: what comes from outside goes through `printable` before it becomes part of one.
std::string printable_lines(std::string_view text);

/// How many characters of a value an error shows at most.
inline constexpr std::size_t kMostQuoted = 200;

/// A value in an error: 'printable', and where it is longer than `kMostQuoted` characters its
/// beginning, and how long it is: 'aaaa...' (100000 bytes).
std::string quoted(std::string_view value);

/// The same without the quotes, for what is no text of a user: a list, a number, JSON.
std::string shortened(std::string_view value);

/// How many elements of a list an error shows at most.
inline constexpr std::size_t kMostListed = 20;

/// A list in an error: what `describe` makes of each element, and of a list of more than `most` the
/// first ones, and how many there are besides: "1, 2, 3 and 997 more".
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
