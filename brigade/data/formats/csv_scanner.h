#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::data {

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
enum class CsvEnd { kMayGoOn, kIsFinal };

/// Scans the row at the beginning of a text. Rows end with "\n", "\r\n" or "\r"; the last one need
/// not. The text must not be empty. Throws kInvalidArgument if the delimiter is a quote or a line
/// end.
CsvRecord scan_csv_record(std::string_view text, const CsvFormat& format, CsvEnd end);

/// The fields of a single row. Throws kInvalidArgument if it is malformed or more text follows.
std::vector<std::string> parse_csv_line(std::string_view line, const CsvFormat& format = {});

}  // namespace brigade::data
