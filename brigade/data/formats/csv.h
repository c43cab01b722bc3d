#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/data/formats/csv_scanner.h"
#include "brigade/data/sources/files.h"
#include "brigade/io/byte_reader.h"
#include "brigade/io/compression.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

/// Whether the first row of each file is a header, which is skipped.
enum class CsvHeader { kNone, kSkip };

/// Options of `csv`.
struct CsvOptions {
  CsvHeader header = CsvHeader::kNone;
  /// The character between two fields.
  char delimiter = ',';
  /// Interprets quotes around fields, as RFC 4180: within them, delimiters and line ends are text,
  /// and "" is a quote. If false, quotes are ordinary characters.
  bool use_quote_delim = true;
  /// A field with this text is missing, like an empty one.
  std::string na_value{};
  /// The selected columns, counted from 0, in ascending order: one per type. Rows may then have
  /// more fields. Empty: all columns, and rows must have exactly one field per type.
  std::vector<std::size_t> select_columns{};
  /// The compression of the files. By default gzip files are detected from their first bytes.
  io::Compression compression = io::Compression::kAuto;
  /// Number of bytes read from a file at a time.
  std::size_t buffer_bytes = 256 << 10;
  /// A longer row is one element that fails, so that memory use is bounded.
  std::size_t max_row_bytes = std::size_t{64} << 20;
  /// The file system. Unset: the local one.
  std::shared_ptr<const io::FileSystem> file_system{};
};

/// The rows of CSV files (RFC 4180), one file after another. An empty field is missing: the
/// column's default is used, and the row fails if there is none.
///
///   auto rows = data::csv({"iris.csv"}, {data::CsvType::kFloat, 0.0f, "unknown"},
///                         {.header = data::CsvHeader::kSkip});
///
/// A row that is malformed, has too few or too many fields, or a field of another type, is one
/// element that fails (kInvalidArgument): the error names file, line, column, text and type. A row
/// with wrong quotes ends with its line; a quote that is never closed consumes the rest of the
/// file.
///
/// It can be sharded by files, as `from_files`. The saved position is a byte offset: restoring
/// seeks to it directly; a compressed file is decompressed up to it. Throws kInvalidArgument if
/// there are no files or no columns, if the selected columns are not ascending or not as many as
/// the types, and for a delimiter that is a quote or a line end.
///
/// TensorFlow counterpart: tf.data.experimental.CsvDataset.
Dataset<CsvRow> csv(std::vector<io::Path> paths, std::vector<CsvColumn> columns,
                    const CsvOptions& options = {});

/// The defaults for missing fields of the columns of `csv<T...>`; none by default.
template <class... T>
using CsvDefaults = std::tuple<std::optional<T>...>;

/// As above, with types known at compile time: int32, int64, float, double, std::string.
///
///   auto rows = data::csv<float, float, std::string>({"iris.csv"});
///   for (const auto& [length, width, species] : rows) ...
template <class... T>
requires(sizeof...(T) > 0) Dataset<std::tuple<T...>> csv(std::vector<io::Path> paths,
                                                         const CsvOptions& options = {},
                                                         CsvDefaults<T...> defaults = {});

/// The names in the first row of a file. Throws as `FileSystem::open` does, kInvalidArgument if the
/// row is malformed, kOutOfRange if the file is empty.
std::vector<std::string> csv_header(const io::Path& path, const CsvOptions& options = {});

namespace internal {

/// Reads the rows of one file; internal.
///
/// Thread-safety: one thread at a time.
class CsvReader {
 public:
  CsvReader(const io::Path& path, std::shared_ptr<const CsvOptions> options,
            std::shared_ptr<const std::vector<CsvColumn>> columns);
  /// The next row; unset at the end. A row that throws is skipped.
  std::optional<CsvRow> next();
  std::uint64_t skip(std::uint64_t count);
  io::StateTree save() const;
  void restore(const io::StateTree& state);

 private:
  std::optional<CsvRecord> record();
  void pass_broken();
  CsvRow row_of(const CsvRecord& record, std::uint64_t line) const;
  CsvValue value_of(const CsvField& field, std::size_t column, std::size_t position,
                    std::uint64_t line) const;
  [[noreturn]] void fail(std::uint64_t line, const std::string& why) const;

  io::Path path_;
  std::shared_ptr<const CsvOptions> options_;
  std::shared_ptr<const std::vector<CsvColumn>> columns_;
  io::ByteReader bytes_;
  std::uint64_t line_ = 1;  // where the next row begins, for errors
  bool is_at_end_ = false;
};

/// Validated options and columns of `csv`, and their text in a pipeline description.
struct CsvPlan {
  std::string source;
  std::shared_ptr<const CsvOptions> options;
  std::shared_ptr<const std::vector<CsvColumn>> columns;
};
CsvPlan plan_csv(const CsvOptions& options, std::vector<CsvColumn> columns);

template <class... T, std::size_t... i>
std::tuple<T...> tuple_of(CsvRow row, std::index_sequence<i...>) {
  return {std::get<T>(std::move(row[i]))...};
}

inline CsvRow made_from(CsvRow row, const CsvRow*) {
  return row;
}
template <class... T>
std::tuple<T...> made_from(CsvRow row, const std::tuple<T...>*) {
  return tuple_of<T...>(std::move(row), std::index_sequence_for<T...>());
}

template <class Row>
class CsvIterator final : public IteratorBase<Row> {
 public:
  explicit CsvIterator(CsvReader reader) : reader_(std::move(reader)) {}
  std::optional<Row> next() override {
    auto row = reader_.next();
    if (!row) return std::nullopt;
    return made_from(std::move(*row), static_cast<const Row*>(nullptr));
  }
  std::uint64_t skip(std::uint64_t count) override { return reader_.skip(count); }
  io::StateTree save() const override { return reader_.save(); }
  void restore(const io::StateTree& state) override { reader_.restore(state); }

 private:
  CsvReader reader_;
};

template <class Row>
Dataset<Row> make_csv(std::vector<io::Path> paths, CsvPlan plan) {
  return make_file_source<Row>(std::move(paths), plan.source, [plan](const io::Path& path) {
    return std::make_unique<CsvIterator<Row>>(CsvReader(path, plan.options, plan.columns));
  });
}

template <class T>
CsvColumn column_of(std::optional<T> default_value) {
  if (default_value) return CsvColumn(CsvValue(std::move(*default_value)));
  return CsvColumn(static_cast<CsvType>(CsvValue(T()).index()));
}

}  // namespace internal

template <class... T>
requires(sizeof...(T) > 0) Dataset<std::tuple<T...>> csv(std::vector<io::Path> paths,
                                                         const CsvOptions& options,
                                                         CsvDefaults<T...> defaults) {
  auto columns = std::apply(
      [](auto&&... value) {
        return std::vector<CsvColumn>{internal::column_of(std::move(value))...};
      },
      std::move(defaults));
  return internal::make_csv<std::tuple<T...>>(std::move(paths),
                                              internal::plan_csv(options, std::move(columns)));
}

}  // namespace brigade::data
