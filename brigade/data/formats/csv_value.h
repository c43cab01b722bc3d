#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace brigade::data {

/// The type of a CSV column: the alternative of `CsvValue`, by its index.
enum class CsvType { kInt32, kInt64, kFloat, kDouble, kString };
/// "int32", "int64", "float", "double", "string".
std::string_view to_string(CsvType type);

using CsvValue = std::variant<std::int32_t, std::int64_t, float, double, std::string>;
using CsvRow = std::vector<CsvValue>;

/// A selected column: a type, and then no field may be missing, or a default value, which also
/// gives the type.
///
///   {CsvType::kInt64, 0.5f, "unknown"}
///
/// Thread-safety: a value.
struct CsvColumn {
  CsvType type = CsvType::kString;
  std::optional<CsvValue> default_value{};

  CsvColumn(CsvType required) : type(required) {}  // NOLINT: as they are written
  CsvColumn(CsvValue value)                        // NOLINT
      : type(static_cast<CsvType>(value.index())), default_value(std::move(value)) {}
  CsvColumn(const char* value) : CsvColumn(CsvValue(std::string(value))) {}  // NOLINT
  CsvColumn(float value) : CsvColumn(CsvValue(value)) {}                     // NOLINT
  CsvColumn(double value) : CsvColumn(CsvValue(value)) {}                    // NOLINT
  CsvColumn(std::int32_t value) : CsvColumn(CsvValue(value)) {}              // NOLINT
  CsvColumn(std::int64_t value) : CsvColumn(CsvValue(value)) {}              // NOLINT
};

/// Parses `text`, ignoring spaces around numbers; unset if it is not a value of the type. Numbers
/// are decimal, with an optional sign; floating-point ones may be "inf", "nan", or too large, which
/// is inf.
std::optional<CsvValue> parse_csv_value(std::string_view text, CsvType type);

}  // namespace brigade::data
