#include "brigade/data/formats/csv_value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

/// For numbers out of range, whether the number is too large or too small, which from_chars does
/// not tell.
template <class T>
T beyond_range(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::size_t exponent = text.find_first_of("eE");
  const bool is_small = exponent != std::string_view::npos
                            ? text.substr(exponent + 1).starts_with('-')
                            : text.find_first_of("123456789") > text.find('.');
  const T size = is_small ? T(0) : std::numeric_limits<T>::infinity();
  return is_negative ? -size : size;
}

template <class T>
std::optional<CsvValue> parse_number(std::string_view text) {
  text = base::trim(text);
  const bool has_plus = text.starts_with('+');
  if (has_plus) text.remove_prefix(1);
  if (text.empty() || (has_plus && text.front() == '-')) return std::nullopt;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc()) return value;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) return beyond_range<T>(text);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(CsvType type) {
  constexpr std::array<std::string_view, 5> kNames = {"int32", "int64", "float", "double",
                                                      "string"};
  return kNames.at(static_cast<std::size_t>(type));
}

std::optional<CsvValue> parse_csv_value(std::string_view text, CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return parse_number<std::int32_t>(text);
    case CsvType::kInt64:
      return parse_number<std::int64_t>(text);
    case CsvType::kFloat:
      return parse_number<float>(text);
    case CsvType::kDouble:
      return parse_number<double>(text);
    case CsvType::kString:
      break;
  }
  return std::string(text);
}

}  // namespace brigade::data
