#include "brigade/data/formats/csv.h"

#include <gtest/gtest.h>

#include <cmath>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Texts = std::vector<std::string>;
using NumberAndText = std::tuple<std::int64_t, std::string>;

TEST(CsvLine, SplitsAsTheStandardSays) {
  EXPECT_EQ(parse_csv_line("a,b,,d"), (Texts{"a", "b", "", "d"}));
  EXPECT_EQ(parse_csv_line(""), Texts{""});
  EXPECT_EQ(parse_csv_line(R"("a,b","c""d","","""""")"), (Texts{"a,b", "c\"d", "", "\"\""}));
  EXPECT_EQ(parse_csv_line("\"two\nlines\",x\r\n"), (Texts{"two\nlines", "x"}));
  EXPECT_EQ(parse_csv_line("a\tb,c\"d", {.delimiter = '\t', .use_quote_delim = false}),
            (Texts{"a", "b,c\"d"}));
}

TEST(CsvLine, RefusesWrongQuotes) {
  expect_invalid_argument([] { parse_csv_line("a\"b"); }, "quote within a field");
  expect_invalid_argument([] { parse_csv_line("\"a\"b,c"); }, "after a closing quote");
  expect_invalid_argument([] { parse_csv_line("\"a,b"); }, "never closed");
  expect_invalid_argument([] { parse_csv_line("a\nb"); }, "followed by others");
  expect_invalid_argument([] { parse_csv_line("a", {.delimiter = '"'}); }, "delimiter");
}

TEST(CsvValue, IsRefusedOrRead) {
  EXPECT_EQ(parse_csv_value(" -12 ", CsvType::kInt64), CsvValue(std::int64_t{-12}));
  EXPECT_EQ(parse_csv_value("1e400", CsvType::kDouble), CsvValue(HUGE_VAL));
  EXPECT_EQ(parse_csv_value("-1e40", CsvType::kFloat), CsvValue(-HUGE_VALF));
  EXPECT_EQ(parse_csv_value("1e-400", CsvType::kDouble), CsvValue(0.0));
  EXPECT_EQ(parse_csv_value("x", CsvType::kString), CsvValue(std::string("x")));
  EXPECT_TRUE(std::isnan(std::get<float>(*parse_csv_value("nan", CsvType::kFloat))));
  for (const char* text : {"", " ", "+", "+-1", "1 2", "1x", "3000000000"}) {
    EXPECT_EQ(parse_csv_value(text, CsvType::kInt32), std::nullopt) << text;
  }
}

const std::string kRows = "1,one\n2,\"two\r\nlines\"\r\n3,\"\"\"three\"\"\"\n4,four";
const std::vector<NumberAndText> kPairs = {
    {1, "one"}, {2, "two\r\nlines"}, {3, "\"three\""}, {4, "four"}};

TEST(Csv, KeepsTheDatasetContract) {
  Folder folder;
  const std::vector<io::Path> paths = {folder.write("a", "id,name\n" + kRows),
                                       folder.write("b", "id,name\n"),
                                       folder.write("c", "id,name\n5,five\n")};
  std::vector<NumberAndText> expected = kPairs;
  expected.emplace_back(5, "five");
  for (const std::size_t buffer_bytes : {1, 10, 1000}) {
    expect_contract(csv<std::int64_t, std::string>(paths, {.header = CsvHeader::kSkip,
                                                           .buffer_bytes = buffer_bytes,
                                                           .file_system = folder.files()}),
                    expected, Length::kUnknown);
  }
  std::vector<CsvRow> rows;
  for (const auto& [id, name] : expected) rows.push_back({id, name});
  expect_contract(csv(paths, {CsvType::kInt64, CsvType::kString},
                      {.header = CsvHeader::kSkip, .file_system = folder.files()}),
                  rows, Length::kUnknown);
}

TEST(Csv, KeepsTheDatasetContractCompressed) {
  Folder folder;
  const io::Path path = folder.write("a", kRows, io::Compression::kGzip);
  expect_contract(
      csv<std::int64_t, std::string>({path}, {.buffer_bytes = 10, .file_system = folder.files()}),
      kPairs, Length::kUnknown);
}

TEST(Csv, UsesDefaultsForMissingFields) {
  Folder folder;
  const io::Path path = folder.write("a", "1,x\n,y\n3,\n");
  const auto dataset = csv<std::int64_t, std::string>({path}, {.file_system = folder.files()},
                                                      {std::int64_t{-1}, "none"});
  EXPECT_EQ(epoch_of(dataset), (std::vector<NumberAndText>{{1, "x"}, {-1, "y"}, {3, "none"}}));
}

std::string message_at(Iterator<NumberAndText>& iterator) {
  return error_of([&] { iterator.next(); }).what();
}

TEST(Csv, ErrorsNameFileLineColumnTextAndType) {
  Folder folder;
  const io::Path path = folder.write(
      "bad", "id,name\n\"1\n\",x\ntwo,y\n3\n,z\n5,a\"b\n\"6\"7,x\n8,good\n9,\"open\n10,x\n");
  const auto dataset =
      csv<std::int64_t, std::string>({path, folder.write("next", "h\n11,x\n")},
                                     {.header = CsvHeader::kSkip, .file_system = folder.files()});
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next(), NumberAndText(1, "x"));
  EXPECT_EQ(message_at(iterator),
            "/f/bad: the row at line 4 has \"two\" in column 0, counted from 0; expected int64");
  EXPECT_EQ(message_at(iterator), "/f/bad: the row at line 5 has 1 fields; there are 2 columns");
  EXPECT_EQ(message_at(iterator),
            "/f/bad: the row at line 6 has nothing in column 0, counted from 0, which has no "
            "default; expected int64");
  EXPECT_EQ(message_at(iterator), "/f/bad: the row at line 7 has a quote within a field");
  auto again = dataset.iterator();
  again.restore(json_round_trip(iterator.save()));
  EXPECT_EQ(message_at(again),
            "/f/bad: the row at line 8 has more than a delimiter after a closing quote");
  EXPECT_EQ(again.next(), NumberAndText(8, "good"));
  EXPECT_EQ(message_at(again), "/f/bad: the row at line 10 has a quote that is never closed");
  EXPECT_EQ(again.next(), NumberAndText(11, "x"));
  EXPECT_EQ(again.next(), std::nullopt);
  EXPECT_EQ(dataset.node()->iterator({})->skip(99), 9U);
}

TEST(Csv, ARowThatIsTooLongIsOneElementThatFails) {
  Folder folder;
  const io::Path path = folder.write("long", "1,x\n2,abcdefghij\n3,x\n");
  auto iterator =
      csv<std::int64_t, std::string>(
          {path}, {.buffer_bytes = 4, .max_row_bytes = 8, .file_system = folder.files()})
          .iterator();
  EXPECT_EQ(iterator.next(), NumberAndText(1, "x"));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(iterator.next(), NumberAndText(3, "x"));
}

TEST(Csv, ReadsTheNamesOfColumns) {
  Folder folder;
  const CsvOptions options{.file_system = folder.files()};
  EXPECT_EQ(csv_header(folder.write("a", "id,\"full name\"\n1,x\n"), options),
            (Texts{"id", "full name"}));
  EXPECT_EQ(error_of([&] { csv_header(folder.write("b", ""), options); }).code(),
            ErrorCode::kOutOfRange);
}

TEST(Csv, RefusesWhatCannotBe) {
  expect_invalid_argument([] { csv({"a"}, {}); }, "list of columns is empty");
  expect_invalid_argument([] { csv({}, {CsvType::kInt64}); }, "list of files is empty");
  expect_invalid_argument(
      [] {
        csv({"a"}, {CsvType::kInt64}, {.select_columns = {1, 2}});
      },
      "2 columns are selected");
  expect_invalid_argument(
      [] {
        csv({"a"}, {CsvType::kInt64, 1.5F}, {.select_columns = {2, 2}});
      },
      "must ascend");
  expect_invalid_argument([] { csv({"a"}, {"x"}, {.delimiter = '\n'}); }, "delimiter");
}

}  // namespace
}  // namespace brigade::data
