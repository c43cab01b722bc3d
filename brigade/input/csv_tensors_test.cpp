#include "brigade/input/csv_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"
#include "brigade/data/testing/tables.h"
#include "brigade/device/dtypes.h"

namespace brigade::input {
namespace {

using data::CsvType;
using data::testing::error_of;
using data::testing::expect_invalid_argument;
using Json = nlohmann::json;

class CsvTensors : public ::testing::Test {
 protected:
  CsvTensorsOptions options(CsvTensorsOptions options = {}) const {
    options.format.file_system = folder_.files();
    return options;
  }
  /// In the order of the file.
  CsvTensorsOptions in_order(CsvTensorsOptions given = {}) const {
    given.shuffle.reset();
    return options(std::move(given));
  }
  void expect_refused(const CsvTensorsOptions& given, const std::string& why) {
    expect_invalid_argument([&] { from_csv({iris_}, in_order(given)); }, why);
  }

  data::testing::Folder folder_;
  io::Path iris_ = folder_.write("iris.csv",
                                 "length,width,species\n"
                                 "5.1,1,setosa\n"
                                 "4.9,2,virginica\n"
                                 "6.5,,setosa\n");
  const CsvTensorsOptions with_words_{.vocabularies = {{"species", {"setosa", "virginica"}}}};
};

Json values_of(const at::Tensor& tensor) {
  Json values = Json::array();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    if (tensor.is_floating_point()) {
      values.push_back(tensor[i].item<double>());
    } else {
      values.push_back(tensor[i].item<std::int64_t>());
    }
  }
  return values;
}

TEST_F(CsvTensors, GivesOneTensorPerColumn) {
  const NamedTensors batch = *from_csv({iris_}, in_order(with_words_)).iterator().next();
  EXPECT_EQ(batch.names(), (NamedTensors::Names{"length", "width", "species"}));
  EXPECT_EQ(batch["length"].scalar_type(), at::kFloat);
  EXPECT_EQ(batch["width"].scalar_type(), at::kInt);
  EXPECT_EQ(values_of(batch["width"]), Json({1, 2, 0}));
  EXPECT_EQ(batch["species"].scalar_type(), at::kLong);
  EXPECT_EQ(values_of(batch["species"]), Json({0, 1, 0}));
}

TEST_F(CsvTensors, SplitsOffTheLabel) {
  const auto [features, labels] =
      *from_csv({iris_}, "species", in_order(with_words_)).iterator().next();
  EXPECT_EQ(features.names(), (NamedTensors::Names{"length", "width"}));
  EXPECT_EQ(values_of(labels), Json({0, 1, 0}));
  expect_invalid_argument([&] { from_csv({iris_}, "color", in_order(with_words_)); },
                          "there is no column \"color\"; there are: length, width, species");
}

Json table_of(const NamedTensors& batch) {
  Json columns = Json::object();
  for (const std::string& name : batch.names()) {
    columns[name] = {{"dtype", device::file_dtype_of(batch[name].scalar_type())->name},
                     {"values", values_of(batch[name])}};
  }
  return columns;
}

TEST_F(CsvTensors, MatchTensorFlow) {
  const data::testing::Table table("make_csv_dataset");
  for (const char* name : {"types", "missing", "of wider types", "chosen columns", "no header",
                           "two files", "the end dropped", "two epochs", "a label"}) {
    SCOPED_TRACE(name);
    const Json& at = table.at(name);
    std::vector<io::Path> paths;
    for (const Json& file : at.at("files")) {
      paths.push_back(folder_.write(base::str_cat("file", paths.size()), file.get<std::string>()));
    }
    CsvTensorsOptions given;
    const Json& wanted = at.at("options");
    given.batch_size = wanted.at("batch_size");
    given.epochs = wanted.at("num_epochs");
    if (wanted.contains("select_columns")) given.select_columns = wanted.at("select_columns");
    if (wanted.contains("column_names")) given.column_names = wanted.at("column_names");
    if (wanted.contains("na_value")) given.format.na_value = wanted.at("na_value");
    if (!wanted.value("header", true)) given.format.header = data::CsvHeader::kNone;
    if (wanted.value("drop", false)) given.batch.remainder = data::Remainder::kDrop;
    Json batches = Json::array();
    if (wanted.contains("label_name")) {
      const std::string label = wanted.at("label_name");
      for (const auto& [features, labels] : from_csv(paths, label, in_order(given))) {
        batches.push_back({table_of(features), values_of(labels)});
      }
    } else {
      for (const auto& batch : from_csv(paths, in_order(given))) batches.push_back(table_of(batch));
    }
    EXPECT_EQ(batches, at.at("batches"));
  }
}

/// A file of the numbers from 0 on.
std::string numbers(int count) {
  std::string text = "n\n";
  for (int i = 0; i < count; ++i) text += base::str_cat(i, "\n");
  return text;
}

std::vector<std::int64_t> all_of(const data::Dataset<NamedTensors>& batches,
                                 data::IteratorOptions options = {}) {
  std::vector<std::int64_t> all;
  auto iterator = batches.iterator(std::move(options));
  while (const auto batch = iterator.next()) {
    for (const Json& value : values_of((*batch)["n"])) all.push_back(value);
  }
  return all;
}

TEST_F(CsvTensors, ShufflesEachEpochDifferently) {
  const auto path = folder_.write("numbers", numbers(20));
  const auto batches = from_csv({path}, options({.batch_size = 20, .epochs = 2}));
  const std::vector<std::int64_t> all = all_of(batches);
  ASSERT_EQ(all.size(), 40U);
  const std::vector<std::int64_t> first(all.begin(), all.begin() + 20);
  const std::vector<std::int64_t> second(all.begin() + 20, all.end());
  EXPECT_NE(first, second);
  std::vector<std::int64_t> in_order(20);
  for (std::int64_t i = 0; i < 20; ++i) in_order[static_cast<std::size_t>(i)] = i;
  EXPECT_TRUE(std::is_permutation(first.begin(), first.end(), in_order.begin()));
  EXPECT_TRUE(std::is_permutation(second.begin(), second.end(), in_order.begin()));
  EXPECT_EQ(all_of(batches), all);
  EXPECT_NE(all_of(batches, {.seed = 1}), all);
  const auto fixed =
      from_csv({path}, options({.shuffle = data::ShuffleOptions{.buffer_size = 20, .seed = 7}}));
  EXPECT_EQ(all_of(fixed), all_of(fixed, {.seed = 1}));
}

TEST_F(CsvTensors, ResumesAtASavedPosition) {
  const auto path = folder_.write("numbers", numbers(20));
  const auto batches = from_csv({path}, options({.batch_size = 3, .epochs = 2}));
  const auto rest_of = [](data::Iterator<NamedTensors>& iterator) {
    Json rest = Json::array();
    while (const auto batch = iterator.next()) rest.push_back(values_of((*batch)["n"]));
    return rest;
  };
  auto iterator = batches.iterator();
  for (int passed = 0; passed < 5; ++passed) iterator.next();
  const io::StateTree state = iterator.save();
  const Json rest = rest_of(iterator);
  EXPECT_EQ(rest.size(), 9U);
  auto other = batches.iterator({.seed = 5});
  other.restore(state);
  EXPECT_EQ(rest_of(other), rest);
}

TEST_F(CsvTensors, UsesGivenTypes) {
  const NamedTensors batch =
      *from_csv({iris_}, in_order({.select_columns = {"width", "length"},
                                   .columns = {{"length", CsvType::kDouble}, {"width", 0.5f}}}))
           .iterator()
           .next();
  EXPECT_EQ(batch.names(), (NamedTensors::Names{"length", "width"}));
  EXPECT_EQ(batch["length"].scalar_type(), at::kDouble);
  EXPECT_EQ(values_of(batch["width"]), Json({1.0, 2.0, 0.5}));

  CsvTensorsOptions required = with_words_;
  required.columns = {{"width", CsvType::kInt64}};
  const Error error = error_of([&] { from_csv({iris_}, in_order(required)).iterator().next(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("line 4 has nothing in column 1"), std::string::npos)
      << error.what();
}

TEST_F(CsvTensors, AcceptsNumbersAsWords) {
  const auto path = folder_.write("codes", "code\n10115\n80331\n10115\n");
  const NamedTensors batch =
      *from_csv({path}, in_order({.vocabularies = {{"code", {"80331", "10115"}}}}))
           .iterator()
           .next();
  EXPECT_EQ(values_of(batch["code"]), Json({1, 0, 1}));
}

TEST_F(CsvTensors, RefusesWordsOutsideTheVocabulary) {
  expect_refused({}, "\"species\" holds strings, which tensors cannot hold");
  const auto batches = from_csv({iris_}, in_order({.vocabularies = {{"species", {"setosa"}}}}));
  expect_invalid_argument([&] { batches.iterator().next(); },
                          "\"virginica\" is not in the vocabulary of the column \"species\"; there "
                          "are: setosa");
  expect_refused({.columns = {{"species", "x"}}, .vocabularies = {{"species", {"setosa"}}}},
                 "\"x\" is not in the vocabulary");
  expect_refused({.columns = {{"width", 0}}, .vocabularies = {{"width", {"1"}}}},
                 "\"width\" has a vocabulary, and is requested as int32");
}

TEST_F(CsvTensors, RefusesMissingColumns) {
  expect_refused({.select_columns = {"color"}}, "there is no column \"color\"");
  expect_refused({.select_columns = {"width", "width"}}, "\"width\" occurs twice");
  expect_refused({.select_columns = {"width"}, .columns = {{"length", 0.0f}}},
                 "there is no column \"length\"; there are: width");
  expect_refused({.vocabularies = {{"color", {"red"}}}}, "there is no column \"color\"");
  expect_refused({.column_names = {"a", "a", "b"}}, "\"a\" occurs twice");
  expect_refused({.format = {.select_columns = {1}}}, "name the columns in `select_columns`");
}

TEST_F(CsvTensors, RefusesFilesThatDiffer) {
  const auto other = folder_.write("other.csv", "length,species\n1,setosa\n");
  expect_invalid_argument(
      [&] {
        from_csv({iris_, other}, in_order(with_words_));
      },
      "the header of /f/other.csv is length, species; that of /f/iris.csv is");
  expect_invalid_argument([&] { from_csv({}, in_order()); }, "the list of files is empty");
  expect_refused({.format = {.header = data::CsvHeader::kNone}}, "in `column_names`");
  EXPECT_EQ(error_of([&] { from_csv({"/f/none.csv"}, in_order()); }).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace brigade::input
