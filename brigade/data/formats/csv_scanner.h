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

/// How rows are divided into fields.
struct CsvFormat {
  char delimiter = ',';
  bool use_quote_delim = true;  ///< see `CsvOptions`
};

/// One field of a row: a view into the text that was scanned.
///
/// Thread-safety: immutable. Lifetime: that of the text.
struct CsvField {
  std::string_view text;           ///< without the quotes around it
  bool has_quotes_inside = false;  ///< whether it contains "" for "

  /// The field's text with "" replaced by ".
  std::string value() const;
};

/// The row at the beginning of a text.
struct CsvRecord {
  std::vector<CsvField> fields{};
  std::size_t bytes = 0;    ///< length of the row, including its line end
  std::uint64_t lines = 0;  ///< line ends in it
  bool is_whole =
      false;  ///< false: the text ends before the row does, and the other members are unset
  std::string problem{};  ///< not empty: the error of the row, which ends with its line
};

/// Whether more text may follow.
enum class CsvEnd { kMayContinue, kIsFinal };

/// Scans the row at the beginning of a text. Rows end with "\n", "\r\n" or "\r"; the last one need
/// not. The text must not be empty. Throws kInvalidArgument if the delimiter is a quote or a line
/// end.
CsvRecord scan_csv_record(std::string_view text, const CsvFormat& format, CsvEnd end);

/// The fields of a single row. Throws kInvalidArgument if it is malformed or more text follows.
std::vector<std::string> parse_csv_line(std::string_view line, const CsvFormat& format = {});

}  // namespace brigade::data
