#include "brigade/data/formats/csv.h"

#include <algorithm>
#include <functional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/position.h"

namespace brigade::data {
namespace {

using base::str_cat;

constexpr const char* kCsvSource = "csv";

void check_selection(const std::vector<std::size_t>& selected, std::size_t columns) {
  if (selected.empty()) return;
  check_argument(selected.size() == columns, "csv: ", selected.size(),
                 " columns are selected, and there are ", columns, " types; give one for each");
  const auto is_out_of_order =
      std::adjacent_find(selected.begin(), selected.end(), std::greater_equal<std::size_t>());
  check_argument(is_out_of_order == selected.end(), "csv: the selected columns are ",
                 base::join(selected, ", "), "; they must ascend");
}

/// The options that determine the rows: "csv[int64, float; 1, 3]".
std::string text_of(const CsvOptions& options, const std::vector<CsvColumn>& columns) {
  std::vector<std::string_view> types;
  for (const CsvColumn& column : columns) types.push_back(to_string(column.type));
  const std::vector<std::size_t>& selected = options.select_columns;
  return str_cat(kCsvSource, "[", base::join(types, ", "), selected.empty() ? "" : "; ",
                 base::join(selected, ", "), "]");
}

CsvFormat format_of(const CsvOptions& options) {
  return {.delimiter = options.delimiter, .use_quote_delim = options.use_quote_delim};
}

/// Peeks at the next row; unset at the end. The fields are views into the reader's buffer.
std::optional<CsvRecord> record_ahead(io::ByteReader& bytes, const CsvOptions& options,
                                      const io::Path& path) {
  std::size_t seen = 0;
  while (true) {
    const std::string_view text = bytes.peek(seen + 1);
    if (text.empty()) return std::nullopt;
    const CsvEnd end = text.size() == seen ? CsvEnd::kIsFinal : CsvEnd::kMayContinue;
    CsvRecord record = scan_csv_record(text, format_of(options), end);
    const std::size_t size = record.is_whole ? record.bytes : text.size();
    if (size > options.max_row_bytes) {
      throw Error(ErrorCode::kResourceExhausted, path, ": the row at byte ", bytes.offset(),
                  " has more than the ", options.max_row_bytes,
                  " bytes allowed: is a quote not closed? If not, raise max_row_bytes");
    }
    if (record.is_whole) return record;
    seen = text.size();
  }
}

}  // namespace

namespace internal {

CsvPlan plan_csv(const CsvOptions& options, std::vector<CsvColumn> columns) {
  check_argument(!columns.empty(), "csv: the list of columns is empty; there must be 1 or more");
  check_selection(options.select_columns, columns.size());
  check_buffer(options.buffer_bytes, kCsvSource);
  scan_csv_record("", format_of(options), CsvEnd::kIsFinal);  // checks the delimiter
  CsvOptions own = options;
  own.file_system = file_system_or_default(options.file_system);
  return {.source = text_of(own, columns),
          .options = std::make_shared<const CsvOptions>(std::move(own)),
          .columns = std::make_shared<const std::vector<CsvColumn>>(std::move(columns))};
}

CsvReader::CsvReader(const io::Path& path, std::shared_ptr<const CsvOptions> options,
                     std::shared_ptr<const std::vector<CsvColumn>> columns)
    : path_(path),
      options_(std::move(options)),
      columns_(std::move(columns)),
      bytes_(*options_->file_system, path,
             {.compression = options_->compression, .buffer_bytes = options_->buffer_bytes}) {}

/// Consumes the next row; its fields stay valid until the next call.
std::optional<CsvRecord> CsvReader::record() {
  if (is_at_end_) return std::nullopt;
  std::optional<CsvRecord> record;
  try {
    const bool is_header = bytes_.offset() == 0 && options_->header == CsvHeader::kSkip;
    record = record_ahead(bytes_, *options_, path_);
    if (record && is_header) {
      bytes_.consume(record->bytes);
      line_ += record->lines;
      record = record_ahead(bytes_, *options_, path_);
    }
  } catch (const Error&) {
    pass_broken();
    throw;
  }
  is_at_end_ = !record.has_value();
  if (is_at_end_) return std::nullopt;
  bytes_.consume(record->bytes);
  line_ += record->lines;
  return record;
}

void CsvReader::pass_broken() {
  try {
    is_at_end_ = !bytes_.skip_line();
  } catch (const Error&) {
    is_at_end_ = true;
  }
  ++line_;
}

std::optional<CsvRow> CsvReader::next() {
  const std::optional<CsvRecord> found = record();
  if (!found) return std::nullopt;
  return row_of(*found, line_ - found->lines);
}

std::uint64_t CsvReader::skip(std::uint64_t count) {
  std::uint64_t passed = 0;
  for (; passed < count; ++passed) {
    try {
      if (!record()) return passed;
    } catch (const Error&) {  // counts as an element
    }
  }
  return passed;
}

io::StateTree CsvReader::save() const {
  io::StateTree state =
      save_file_position(kCsvSource, {.offset = bytes_.offset(), .is_at_end = is_at_end_});
  state["line"] = line_;
  return state;
}

void CsvReader::restore(const io::StateTree& state) {
  const FilePosition position = load_file_position(state, kCsvSource);
  const std::uint64_t line = position_number(state, "line");
  bytes_.seek(position.offset);
  is_at_end_ = position.is_at_end;
  line_ = line;
}

void CsvReader::fail(std::uint64_t line, const std::string& why) const {
  refuse(path_, ": the row at line ", line, " ", why);
}

CsvRow CsvReader::row_of(const CsvRecord& record, std::uint64_t line) const {
  if (!record.problem.empty()) fail(line, record.problem);
  const std::vector<std::size_t>& selected = options_->select_columns;
  const std::size_t fields = record.fields.size();
  if (selected.empty() && fields != columns_->size()) {
    fail(line, str_cat("has ", fields, " fields; there are ", columns_->size(), " columns"));
  }
  if (!selected.empty() && selected.back() >= fields) {
    fail(line, str_cat("has ", fields, " fields; column ", selected.back(),
                       ", counted from 0, is selected"));
  }
  CsvRow row;
  row.reserve(columns_->size());
  for (std::size_t i = 0; i < columns_->size(); ++i) {
    const std::size_t position = selected.empty() ? i : selected[i];
    row.push_back(value_of(record.fields[position], i, position, line));
  }
  return row;
}

CsvValue CsvReader::value_of(const CsvField& field, std::size_t column, std::size_t position,
                             std::uint64_t line) const {
  const CsvColumn& wanted = (*columns_)[column];
  std::string unquoted;
  std::string_view text = field.text;
  if (field.has_quotes_inside) text = unquoted = field.value();
  if (text.empty() || text == options_->na_value) {
    if (wanted.default_value) return *wanted.default_value;
    fail(line, str_cat("has nothing in column ", position,
                       ", counted from 0, which has no default; expected ", wanted.type));
  }
  auto value = parse_csv_value(text, wanted.type);
  if (!value) {
    fail(line, str_cat("has \"", text.substr(0, 200), "\" in column ", position,
                       ", counted from 0; expected ", wanted.type));
  }
  return *std::move(value);
}

}  // namespace internal

Dataset<CsvRow> csv(std::vector<io::Path> paths, std::vector<CsvColumn> columns,
                    const CsvOptions& options) {
  return internal::make_csv<CsvRow>(std::move(paths),
                                    internal::plan_csv(options, std::move(columns)));
}

std::vector<std::string> csv_header(const io::Path& path, const CsvOptions& options) {
  const auto files = internal::file_system_or_default(options.file_system);
  io::ByteReader bytes(*files, path, {.compression = options.compression});
  const std::optional<CsvRecord> record = record_ahead(bytes, options, path);
  if (!record) {
    throw Error(ErrorCode::kOutOfRange, path, ": is empty; a header was expected");
  }
  check_argument(record->problem.empty(), path, ": the header ", record->problem);
  std::vector<std::string> names;
  for (const CsvField& field : record->fields) names.push_back(field.value());
  return names;
}

}  // namespace brigade::data
