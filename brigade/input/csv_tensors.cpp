#include "brigade/input/csv_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <variant>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::input {
namespace {

using base::str_cat;
using data::CsvColumn;
using data::CsvRow;
using data::CsvType;
using data::CsvValue;
using Names = std::vector<std::string>;

bool fits(const std::string& text, CsvType type) {
  const auto value = data::parse_csv_value(text, type);
  if (!value || type != CsvType::kFloat) return value.has_value();
  // A number too large for float32 was read as infinite.
  const auto exact = data::parse_csv_value(text, CsvType::kDouble);
  return std::isinf(std::get<float>(*value)) == std::isinf(std::get<double>(*exact));
}

/// The first type that can represent `text` and all values of `type`.
CsvType widened(CsvType type, const std::string& text) {
  while (type != CsvType::kString && !fits(text, type)) {
    type = static_cast<CsvType>(static_cast<int>(type) + 1);
  }
  return type;
}

/// For each selected column, the first type in the order of `CsvType` that fits all its fields in
/// the first `rows` rows; kString if all are missing. Throws the errors of the rows.
std::vector<CsvType> infer_csv_types(const std::vector<io::Path>& paths,
                                     const data::CsvOptions& format, std::int64_t rows) {
  const std::size_t columns = format.select_columns.size();
  std::vector<std::optional<CsvType>> types(columns);
  const auto texts = data::csv(paths, std::vector<CsvColumn>(columns, CsvColumn("")), format);
  for (const data::CsvRow& row : texts.take(rows)) {
    for (std::size_t i = 0; i < columns; ++i) {
      const std::string& text = std::get<std::string>(row[i]);
      if (!text.empty()) types[i] = widened(types[i].value_or(CsvType::kInt32), text);
    }
  }
  std::vector<CsvType> result;
  for (const auto& type : types) result.push_back(type.value_or(CsvType::kString));
  return result;
}

/// A column of the given type: numbers with default 0; strings without a default.
CsvColumn csv_column_with_zero(CsvType type) {
  if (type == CsvType::kString) return type;
  return *data::parse_csv_value("0", type);
}

[[noreturn]] void fail(const std::string& why) {
  refuse("from_csv: ", why);
}

std::size_t column_index(const std::string& name, const Names& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    fail(str_cat("there is no column \"", name, "\"; there are: ", base::join(names, ", ")));
  }
  return static_cast<std::size_t>(found - names.begin());
}

void check_distinct_columns(const Names& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) {
      fail(str_cat("the column \"", *name, "\" occurs twice"));
    }
  }
}

Names names_in(const std::vector<io::Path>& paths, const CsvTensorsOptions& options) {
  if (!options.column_names.empty()) return options.column_names;
  if (options.format.header == data::CsvHeader::kNone) {
    fail("the files have no header; give the names of their columns in `column_names`");
  }
  if (paths.empty()) fail("the list of files is empty; there must be 1 or more");
  const Names names = data::csv_header(paths[0], options.format);
  for (const io::Path& path : paths) {
    const Names others = data::csv_header(path, options.format);
    if (others == names) continue;
    fail(str_cat("the header of ", path, " is ", base::join(others, ", "), "; that of ", paths[0],
                 " is ", base::join(names, ", "), "; the headers must be equal"));
  }
  return names;
}

/// The indices of the selected columns in the files, ascending.
std::vector<std::size_t> column_indices(const Names& wanted, const Names& all) {
  std::vector<std::size_t> indices;
  for (const std::string& name : wanted.empty() ? all : wanted) {
    indices.push_back(column_index(name, all));
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

/// Converts rows to tensors.
///
/// Thread-safety: immutable.
class CsvTensors {
 public:
  CsvTensors(const std::vector<io::Path>& paths, const CsvTensorsOptions& options);

  const Names& names() const { return *names_; }
  const std::vector<CsvColumn>& columns() const { return columns_; }
  const data::CsvOptions& format() const { return format_; }
  NamedTensors operator()(const std::vector<CsvRow>& rows) const;

 private:
  void choose_columns(const std::vector<io::Path>& paths, const CsvTensorsOptions& options);
  void check_columns() const;
  std::int64_t index_in_vocabulary(std::size_t column, const std::string& word) const;
  at::Tensor tensor_of(const std::vector<CsvRow>& rows, std::size_t column) const;

  std::shared_ptr<const Names> names_;
  data::CsvOptions format_;
  std::vector<CsvColumn> columns_;
  std::vector<Names> vocabularies_;  // empty for columns of numbers
};

CsvTensors::CsvTensors(const std::vector<io::Path>& paths, const CsvTensorsOptions& options)
    : format_(options.format) {
  if (!format_.select_columns.empty()) {
    fail("`format.select_columns` is set; name the columns in `select_columns`");
  }
  const Names all = names_in(paths, options);
  check_distinct_columns(all);
  check_distinct_columns(options.select_columns);
  format_.select_columns = column_indices(options.select_columns, all);
  Names names;
  for (const std::size_t index : format_.select_columns) names.push_back(all[index]);
  for (const auto& [name, column] : options.columns) column_index(name, names);
  for (const auto& [name, words] : options.vocabularies) column_index(name, names);
  names_ = std::make_shared<const Names>(std::move(names));
  choose_columns(paths, options);
  check_columns();
}

void CsvTensors::choose_columns(const std::vector<io::Path>& paths,
                                const CsvTensorsOptions& options) {
  std::vector<CsvType> types;
  for (const std::string& name : *names_) {
    const auto words = options.vocabularies.find(name);
    vocabularies_.push_back(words == options.vocabularies.end() ? Names() : words->second);
    const auto column = options.columns.find(name);
    if (column != options.columns.end()) {
      columns_.push_back(column->second);
    } else if (!vocabularies_.back().empty()) {
      columns_.emplace_back(CsvType::kString);
    } else {
      if (types.empty()) {
        types = infer_csv_types(paths, format_, options.rows_for_inference);
      }
      columns_.push_back(csv_column_with_zero(types[columns_.size()]));
    }
  }
}

void CsvTensors::check_columns() const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool is_string = columns_[i].type == CsvType::kString;
    const std::string& name = (*names_)[i];
    if (is_string && vocabularies_[i].empty()) {
      fail(str_cat("the column \"", name,
                   "\" holds strings, which tensors cannot hold: list its words in `vocabularies`, "
                   "or leave it out by `select_columns`"));
    }
    if (!is_string && !vocabularies_[i].empty()) {
      fail(str_cat("the column \"", name, "\" has a vocabulary, and is requested as ",
                   columns_[i].type, "; it must be a string"));
    }
    if (is_string && columns_[i].default_value) {
      index_in_vocabulary(i, std::get<std::string>(*columns_[i].default_value));
    }
  }
}

std::int64_t CsvTensors::index_in_vocabulary(std::size_t column, const std::string& word) const {
  const Names& words = vocabularies_[column];
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    fail(str_cat("\"", word, "\" is not in the vocabulary of the column \"", (*names_)[column],
                 "\"; there are: ", base::join(words, ", ")));
  }
  return found - words.begin();
}

at::Tensor CsvTensors::tensor_of(const std::vector<CsvRow>& rows, std::size_t column) const {
  const auto tensor_with = [&]<class T>(T, const auto& number) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(rows.size())},
                                  at::TensorOptions(c10::CppTypeToScalarType<T>::value));
    T* to = tensor.mutable_data_ptr<T>();
    for (const CsvRow& row : rows) *to++ = number(row[column]);
    return tensor;
  };
  const CsvType type = columns_[column].type;
  if (type == CsvType::kString) {
    return tensor_with(std::int64_t(), [&](const CsvValue& value) {
      return index_in_vocabulary(column, std::get<std::string>(value));
    });
  }
  const auto as = [&]<class T>(T zero) {
    return tensor_with(zero, [](const CsvValue& value) { return std::get<T>(value); });
  };
  if (type == CsvType::kInt32) return as(std::int32_t());
  if (type == CsvType::kInt64) return as(std::int64_t());
  return type == CsvType::kFloat ? as(float()) : as(double());
}

NamedTensors CsvTensors::operator()(const std::vector<CsvRow>& rows) const {
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < columns_.size(); ++i) tensors.push_back(tensor_of(rows, i));
  return NamedTensors(names_, std::move(tensors));
}

data::Dataset<std::vector<CsvRow>> batches_of(std::vector<io::Path> paths,
                                              const CsvTensors& tensors,
                                              const CsvTensorsOptions& options) {
  auto rows = data::csv(std::move(paths), tensors.columns(), tensors.format());
  if (options.shuffle) rows = rows.shuffle(*options.shuffle);
  if (options.epochs != 1) rows = rows.repeat(options.epochs);
  return rows.batch(options.batch_size, options.batch);
}

}  // namespace

data::Dataset<NamedTensors> from_csv(std::vector<io::Path> paths,
                                     const CsvTensorsOptions& options) {
  const auto tensors = std::make_shared<const CsvTensors>(paths, options);
  return batches_of(std::move(paths), *tensors, options)
      .map([tensors](const std::vector<CsvRow>& rows) { return (*tensors)(rows); })
      .prefetch(options.prefetch);
}

data::Dataset<std::pair<NamedTensors, at::Tensor>> from_csv(std::vector<io::Path> paths,
                                                            const std::string& label,
                                                            const CsvTensorsOptions& options) {
  const auto tensors = std::make_shared<const CsvTensors>(paths, options);
  column_index(label, tensors->names());
  return batches_of(std::move(paths), *tensors, options)
      .map([tensors, label](const std::vector<CsvRow>& rows) {
        const NamedTensors all = (*tensors)(rows);
        return std::pair(all.without(label), all[label]);
      })
      .prefetch(options.prefetch);
}

}  // namespace brigade::input
