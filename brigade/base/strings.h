#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/text_piece.h"

namespace brigade::base {

/// All pieces, one after the other.
std::string concatenate(std::initializer_list<TextPiece> pieces);

/// Writes all its arguments, one after the other, as `append_text` does: `str_cat("got ", 3, " of
/// ", 4.5)` is "got 3 of 4.5".
template <class... T>
std::string str_cat(const T&... pieces) {
  return concatenate({TextPiece(pieces)...});
}

/// The elements of any range, written as `str_cat` writes them, with `separator` between two of
/// them.
template <class Range>
std::string join(const Range& range, std::string_view separator) {
  std::string text;
  bool is_first = true;
  for (const auto& element : range) {
    if (!is_first) text += separator;
    append_text(text, element);
    is_first = false;
  }
  return text;
}

/// The parts of `text` between the separators, empty ones included: those of "a,,b" are "a", "" and
/// "b". Always at least one part: an empty text has an empty one.
std::vector<std::string> split(std::string_view text, char separator);

/// `text` without spaces, tabs and line ends at both ends. A view into the same characters.
std::string_view trim(std::string_view text);

/// `text` with the letters A to Z in lower case, whatever the locale.
std::string lower_case(std::string_view text);

/// Two lower-case hexadecimal digits for each byte.
std::string to_hex(std::span<const std::byte> bytes);

/// The whole of `text` as a decimal number, or nothing if any character does not belong to one (a
/// leading '+' and spaces included) or the number does not fit.
std::optional<std::int64_t> parse_int(std::string_view text);

/// The whole of `text` as a number from 0 that fits an int: digits alone. Nothing for anything
/// else.
std::optional<int> parse_index(std::string_view text);

/// An exception's text without the stack trace that libtorch appends, and without surrounding
/// spaces and line ends. A view into the same characters.
std::string_view without_stack_trace(std::string_view what);

/// A human-readable size in powers of 1024: "0 B", "1023 B", "1.5 KiB", "16.0 EiB".
std::string human_bytes(std::uint64_t bytes);

/// The most likely intended candidate for `word`, for "did you mean ...": the one with the smallest
/// case-insensitive edit distance, the earlier one of two equal ones. Nothing if all are too far:
/// more than a third of the word's length and more than one edit.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

}  // namespace brigade::base
