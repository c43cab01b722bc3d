#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::data {

/// Whether quotes around a field mean something.
enum class CsvQuotes {
  kOn,   ///< As RFC 4180 says: within quotes, delimiters and line ends are text, and "" is a quote.
  kOff,  ///< Quotes are text like any other.
};

struct CsvFormat {
  char delimiter = ',';
  CsvQuotes quotes = CsvQuotes::kOn;
};

/// One field of a row: a view into the text that was scanned.
///
/// Thread-safety: immutable. Lifetime: that of the text.
struct CsvField {
  std::string_view text;           ///< without the quotes around it
  bool has_quotes_inside = false;  ///< whether "" stands in it for "

  /// The text that is meant.
  std::string value() const;
};

/// What the beginning of a text is, read as a row.
struct CsvRecord {
  std::vector<CsvField> fields{};
  std::size_t bytes = 0;    ///< of the text that the row takes, its end included
  std::uint64_t lines = 0;  ///< line ends in it
  bool is_whole = false;    ///< false: the text ends before the row does, nothing else is said
  std::string problem{};    ///< not empty: what is wrong with the row, which ends with its line
};

/// Whether a text may go on.
enum class CsvEnd { kMayGoOn, kIsFinal };

/// The row that a text begins with. Rows end with "\n", "\r\n" or "\r"; the last one need not. The
/// text must not be empty. Throws kInvalidArgument if the delimiter is a quote or a line end.
CsvRecord scan_csv_record(std::string_view text, const CsvFormat& format, CsvEnd end);

/// The fields of one row, on its own. Throws kInvalidArgument if it is broken, or more follows.
std::vector<std::string> parse_csv_line(std::string_view line, const CsvFormat& format = {});

}  // namespace brigade::data
