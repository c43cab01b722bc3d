#include "brigade/data/formats/csv_scanner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <type_traits>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr char kQuote = '"';

bool is_line_end(char c) {
  return c == '\n' || c == '\r';
}

/// Scans a text once and returns its first row.
class Scanner {
 public:
  Scanner(std::string_view text, const CsvFormat& format, CsvEnd end)
      : text_(text),
        delimiter_(format.delimiter),
        has_quotes_(format.use_quote_delim),
        is_final_(end == CsvEnd::kIsFinal) {}

  CsvRecord run() {
    while (has_field() && at_ < text_.size() && text_[at_] == delimiter_) ++at_;
    end();
    return std::move(record_);
  }

 private:
  bool is_end_of_field(char c) const { return c == delimiter_ || is_line_end(c); }

  /// Reads a field up to its delimiter or line end; if it is malformed, up to the end of the line.
  bool has_field() {
    const bool is_quoted = has_quotes_ && at_ < text_.size() && text_[at_] == kQuote;
    return is_quoted ? quoted() : plain();
  }

  bool plain() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_end_of_field(text_[at_])) {
      if (has_quotes_ && text_[at_] == kQuote) return fail("has a quote within a field");
      ++at_;
    }
    record_.fields.push_back({text_.substr(begin, at_ - begin)});
    return true;
  }

  bool quoted() {
    const std::size_t begin = ++at_;
    bool has_quotes_inside = false;
    while (true) {
      at_ = text_.find(kQuote, at_);
      if (at_ == std::string_view::npos) return unclosed(begin);
      if (at_ + 1 == text_.size() || text_[at_ + 1] != kQuote) break;
      has_quotes_inside = true;
      at_ += 2;
    }
    record_.fields.push_back({text_.substr(begin, at_ - begin), has_quotes_inside});
    record_.lines += lines_in(begin);
    ++at_;
    if (at_ == text_.size() || is_end_of_field(text_[at_])) return true;
    return fail("has more than a delimiter after a closing quote");
  }
  std::uint64_t lines_in(std::size_t begin) const {
    return static_cast<std::uint64_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 '\n'));
  }
  bool unclosed(std::size_t begin) {
    at_ = text_.size();
    record_.lines += lines_in(begin);
    return fail("has a quote that is never closed");
  }

  bool fail(const char* problem) {
    while (at_ < text_.size() && !is_line_end(text_[at_])) ++at_;
    record_.problem = problem;
    return false;
  }

  /// Skips the end of the line.
  void end() {
    if (at_ < text_.size()) {
      const bool is_return = text_[at_++] == '\r';
      ++record_.lines;
      const bool may_continue = is_return && at_ == text_.size() && !is_final_;
      record_.is_whole = !may_continue;  // with a '\n'
      if (is_return && at_ < text_.size() && text_[at_] == '\n') ++at_;
    } else {
      record_.is_whole = is_final_;
    }
    record_.bytes = at_;
  }

  std::string_view text_;
  char delimiter_;
  bool has_quotes_;
  bool is_final_;
  std::size_t at_ = 0;
  CsvRecord record_;
};

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

std::string CsvField::value() const {
  if (!has_quotes_inside) return std::string(text);
  std::string value;
  for (std::size_t i = 0; i < text.size(); ++i) {
    value += text[i];
    if (text[i] == kQuote) ++i;  // they come in pairs
  }
  return value;
}

CsvRecord scan_csv_record(std::string_view text, const CsvFormat& format, CsvEnd end) {
  check_argument(format.delimiter != kQuote && !is_line_end(format.delimiter),
                 "csv: the delimiter is a quote or a line end; choose another character");
  return Scanner(text, format, end).run();
}

std::vector<std::string> parse_csv_line(std::string_view line, const CsvFormat& format) {
  const CsvRecord record = scan_csv_record(line, format, CsvEnd::kIsFinal);
  if (!record.problem.empty() || record.bytes < line.size()) {
    refuse("The line \"", line.substr(0, 200), "\" ",
           record.problem.empty() ? "is followed by others" : record.problem);
  }
  std::vector<std::string> values;
  for (const CsvField& field : record.fields) values.push_back(field.value());
  return values;
}

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
