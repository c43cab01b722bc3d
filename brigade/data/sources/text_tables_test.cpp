#include <gtest/gtest.h>

#include "brigade/data/formats/csv.h"
#include "brigade/data/formats/fixed_length_records.h"
#include "brigade/data/formats/records.h"
#include "brigade/data/sources/text_lines.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"
#include "brigade/data/testing/tables.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using io::Compression;
using Json = nlohmann::json;

/// Files as tools/tf_data/text.py made them.
class TensorFlowsFiles : public ::testing::Test {
 protected:
  io::Path file_of(const std::string& name) {
    return folder_.write("file", bytes_of_hex(table_.at(name).at("file").get<std::string>()));
  }
  template <class T>
  void expect_file_matches_table(const std::string& name, const Dataset<T>& dataset) {
    SCOPED_TRACE(name);
    EXPECT_EQ(dataset.cardinality(), table_.cardinality(name));
    expect_contract(dataset, table_.elements<T>(name), Length::kUnknown);
  }

  const Table table_{"text"};
  Folder folder_;
};

TEST_F(TensorFlowsFiles, OfTextGiveTheSameLines) {
  for (const char* name : {"lines", "lines, the last one ended", "lines of an empty file"}) {
    expect_file_matches_table(name, text_lines({file_of(name)}, {.file_system = folder_.files()}));
  }
}

TEST_F(TensorFlowsFiles, OfFixedLengthGiveTheSameRecords) {
  for (const char* name : {"fixed", "fixed, header and footer"}) {
    const Json& at = table_.at(name);
    expect_file_matches_table(
        name, fixed_length_records({file_of(name)}, {.record_bytes = at.at("record"),
                                                     .header_bytes = at.at("header"),
                                                     .footer_bytes = at.at("footer"),
                                                     .file_system = folder_.files()}));
  }
}

TEST_F(TensorFlowsFiles, OfRecordsGiveTheSameRecords) {
  const std::vector<std::pair<std::string, Compression>> cases = {
      {"records", Compression::kNone},
      {"records, gzip", Compression::kGzip},
      {"records, zlib", Compression::kZlib}};
  for (const auto& [name, compression] : cases) {
    expect_file_matches_table(name, records({file_of(name)}, {.compression = compression,
                                                              .file_system = folder_.files()}));
  }
}

CsvType type_named(const std::string& name) {
  int type = 0;
  while (to_string(static_cast<CsvType>(type)) != name) ++type;
  return static_cast<CsvType>(type);
}

CsvValue value_of(const Json& json, CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return json.get<std::int32_t>();
    case CsvType::kInt64:
      return json.get<std::int64_t>();
    case CsvType::kFloat:
      return json.get<float>();
    case CsvType::kDouble:
      return json.get<double>();
    case CsvType::kString:
      break;
  }
  return json.get<std::string>();
}

std::vector<CsvColumn> columns_of(const Json& json) {
  std::vector<CsvColumn> columns;
  for (const Json& column : json) {
    if (column.is_string()) {
      columns.emplace_back(type_named(column));
    } else {
      columns.emplace_back(value_of(column[1], type_named(column[0])));
    }
  }
  return columns;
}

CsvOptions options_of(const Json& json) {
  CsvOptions options;
  for (const auto& [key, value] : json.items()) {
    if (key == "na_value") options.na_value = value;
    if (key == "use_quote_delim") options.use_quote_delim = value;
    if (key == "select_cols") options.select_columns = value.get<std::vector<std::size_t>>();
    if (key == "header") options.header = value ? CsvHeader::kSkip : CsvHeader::kNone;
    if (key == "field_delim") options.delimiter = value.get<std::string>().at(0);
  }
  return options;
}

/// Every row; an empty one for each row that fails.
std::vector<CsvRow> rows_with_failures(const Dataset<CsvRow>& dataset) {
  auto iterator = dataset.iterator();
  std::vector<CsvRow> rows;
  while (true) {
    try {
      auto row = iterator.next();
      if (!row) return rows;
      rows.push_back(std::move(*row));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      rows.emplace_back();
    }
  }
}

TEST_F(TensorFlowsFiles, OfCsvGiveTheSameRows) {
  for (const char* name :
       {"csv", "csv, fields too few and too many", "csv, spaces, signs and empty quotes",
        "csv, ends by return", "csv, another value for missing", "csv, quotes off",
        "csv, header and chosen columns", "csv, chosen columns of uneven rows",
        "csv, numbers that do not fit", "csv, floats", "csv, an empty line",
        "csv, another delimiter", "csv of an empty file"}) {
    SCOPED_TRACE(name);
    const Json& at = table_.at(name);
    const std::vector<CsvColumn> columns = columns_of(at.at("columns"));
    std::vector<CsvRow> expected;
    for (const Json& row : at.at("elements")) {
      expected.emplace_back();
      if (row.is_string()) continue;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        expected.back().push_back(value_of(row[i], columns[i].type));
      }
    }
    for (const std::size_t buffer_bytes : {1, 7, 1000}) {
      CsvOptions options = options_of(at.at("options"));
      options.file_system = folder_.files();
      options.buffer_bytes = buffer_bytes;
      const auto dataset = csv({file_of(name)}, columns, options);
      EXPECT_EQ(rows_with_failures(dataset), expected);
      EXPECT_EQ(dataset.node()->iterator({})->skip(99), expected.size());
    }
  }
}

}  // namespace
}  // namespace brigade::data
