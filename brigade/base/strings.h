#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace brigade::base {

/// Appends one value as text: strings as they are, bool as "true"/"false", numbers in the shortest
/// form that reads back to the same value, paths unquoted, types with a `to_string` found by
/// argument-dependent lookup through that, and others through `operator<<`. Strings and numbers do
/// not depend on the locale.
template <class T>
void append_text(std::string& text, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    text += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    text += value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    text += std::string_view(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    char digits[64];
    text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  } else if constexpr (requires {
                         { to_string(value) } -> std::convertible_to<std::string_view>;
                       }) {
    text += std::string_view(to_string(value));
  } else if constexpr (requires {
                         { value.string() } -> std::convertible_to<std::string_view>;
                       }) {
    text += std::string_view(value.string());
  } else {
    std::ostringstream stream;
    stream << value;
    text += stream.str();
  }
}

/// Writes all its arguments, one after the other: `str_cat("got ", 3, " of ", 4.5)` is "got 3
/// of 4.5".
template <class... T>
std::string str_cat(const T&... pieces) {
  std::string text;
  (append_text(text, pieces), ...);
  return text;
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
