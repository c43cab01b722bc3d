#include "brigade/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace brigade::base {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_letter(char a, char b) {
  return lower(a) == lower(b);
}

/// The fewest insertions, deletions, replacements and swaps of neighbors (Damerau and Levenshtein's
/// distance, without edits of what was swapped), letters compared whatever their case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> of(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) of[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) of[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = of[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      of[i][j] = std::min({replaced, of[i - 1][j] + 1, of[i][j - 1] + 1});
      const bool is_swap =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (is_swap) of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
    }
  }
  return of[a.size()][b.size()];
}

}  // namespace

std::string concatenate(std::initializer_list<TextPiece> pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) piece.append_to(text);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return text.substr(0, 0);
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string_view without_stack_trace(std::string_view what) {
  constexpr std::string_view kBeginOfTrace = "\nException raised from ";
  return trim(what.substr(0, what.find(kBeginOfTrace)));
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped_at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped_at != end) return std::nullopt;
  return value;
}

std::optional<int> parse_index(std::string_view text) {
  const auto value = text.starts_with('-') ? std::nullopt : parse_int(text);
  if (!value || *value > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*value);
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "EiB"};
  if (bytes < 1024) return str_cat(bytes, " B");
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 and more would be written as "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, 1);
  return str_cat(std::string_view(digits.data(), end.ptr), " ", kUnits[unit]);
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    found = candidate;
  }
  return found;
}

}  // namespace brigade::base
