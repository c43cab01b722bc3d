#include "brigade/input/example_features.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/data/formats/example.h"
#include "brigade/data/formats/records.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/file_folder.h"
#include "brigade/data/testing/tables.h"
#include "brigade/device/dtypes.h"

namespace brigade::input {
namespace {

using data::BytesList;
using data::FeatureKind;
using data::FixedLenFeature;
using data::FloatList;
using data::Int64List;
using data::testing::error_of;
using data::testing::expect_invalid_argument;
using Json = nlohmann::json;

std::string bytes_of(std::map<std::string, data::Feature, std::less<>> features) {
  return data::serialize({std::move(features)});
}

/// An image of two pixels that are `n`, the label n, and n words.
std::string record(std::int64_t n) {
  return bytes_of({{"image", BytesList{std::string(2, static_cast<char>(n))}},
                   {"label", Int64List{n}},
                   {"words", Int64List(static_cast<std::size_t>(n), n)}});
}

ExampleFeatures parser() {
  return ExampleFeatures(
      {{"image", RawFeature{.shape = {{2}}}},
       {"label", FixedLenFeature{.kind = FeatureKind::kInt64}},
       {"words",
        PaddedFeature{.kind = FeatureKind::kInt64, .padding = -1, .lengths = "word_count"}}});
}

bool has_equal_tensors(const NamedTensors& a, const NamedTensors& b) {
  if (a.names() != b.names()) return false;
  for (std::size_t i = 0; i < a.names().size(); ++i) {
    const at::Tensor &left = a.tensors()[i], &right = b.tensors()[i];
    if (left.scalar_type() != right.scalar_type() || !at::equal(left, right)) return false;
  }
  return true;
}

TEST(ExampleFeatures, ReadsOneExample) {
  const NamedTensors example = parser()(record(3));
  EXPECT_EQ(example.names(), (NamedTensors::Names{"image", "label", "words", "word_count"}));
  EXPECT_EQ(example["image"].scalar_type(), at::kByte);
  EXPECT_EQ(example["image"].sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(example["label"].dim(), 0);
  EXPECT_EQ(example["label"].item<std::int64_t>(), 3);
  EXPECT_TRUE(at::equal(example["words"], at::tensor({3L, 3L, 3L})));
  EXPECT_EQ(example["word_count"].item<std::int64_t>(), 3);
}

TEST(ExampleFeatures, ReadsAWholeBatch) {
  const NamedTensors batch = parser()(std::vector{record(2), record(0), record(1)});
  EXPECT_TRUE(at::equal(batch["label"], at::tensor({2L, 0L, 1L})));
  EXPECT_TRUE(at::equal(batch["words"], at::tensor({2L, 2L, -1L, -1L, 1L, -1L}).view({3, 2})));
  EXPECT_TRUE(at::equal(batch["word_count"], at::tensor({2L, 0L, 1L})));
  EXPECT_EQ(batch["image"].sizes(), at::IntArrayRef({3, 2}));
}

TEST(ExampleFeatures, UsesTheLastOfADuplicateFeature) {
  const NamedTensors example = parser()(record(1) + record(3));  // protobuf's way to merge
  EXPECT_EQ(example["label"].item<std::int64_t>(), 3);
  EXPECT_EQ(example["word_count"].item<std::int64_t>(), 3);
}

TEST(ExampleFeatures, ReadsAnEmptyBatch) {
  const NamedTensors batch = parser()(std::vector<std::string>());
  EXPECT_EQ(batch["image"].sizes(), at::IntArrayRef({0, 2}));
  EXPECT_EQ(batch["label"].sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(batch["words"].sizes(), at::IntArrayRef({0, 0}));
}

TEST(ExampleFeatures, GivesTheSameBeforeAndAfterBatch) {
  data::testing::Folder folder;
  std::vector<std::string> records;
  for (std::int64_t n = 0; n < 7; ++n) records.push_back(record(n % 4));
  const auto path = folder.write("records", data::testing::framed(records));
  const auto source = data::records({path}, {.file_system = folder.files()});
  auto after_batch = source.batch(3).map(parser(), {.parallelism = 2}).iterator();
  auto before =
      source.map(parser()).padded_batch(3, {.padding = {{"words", {.value = -1}}}}).iterator();
  int batches = 0;
  while (const auto batch = after_batch.next()) {
    EXPECT_TRUE(has_equal_tensors(*batch, *before.next()));
    ++batches;
  }
  EXPECT_EQ(batches, 3);
  EXPECT_FALSE(before.next());
}

TensorFeature wanted_of(const std::string& name, const Json& json) {
  const auto form = json[0].get<std::string>();
  if (form == "raw") {
    RawFeature raw;
    const auto wanted = json[1].get<std::string>();
    for (const auto& dtype : device::file_dtypes()) {
      if (dtype.name == wanted) raw.dtype = dtype.type;
    }
    if (!json[2].is_null()) raw.shape = json[2].get<std::vector<std::int64_t>>();
    if (!json[3].is_null()) raw.default_value = json[3].get<std::string>();
    return {name, raw};
  }
  const bool is_float = json[1] == "float";
  const auto kind = is_float ? FeatureKind::kFloat : FeatureKind::kInt64;
  const auto shape = json[2].get<std::vector<std::int64_t>>();
  if (form == "padded") {
    PaddedFeature padded{.kind = kind, .shape = shape};
    if (!json[3].is_null() && is_float) padded.padding = json[3].get<float>();
    if (!json[3].is_null() && !is_float) padded.padding = json[3].get<std::int64_t>();
    return {name, padded};
  }
  FixedLenFeature fixed{.kind = kind, .shape = shape};
  const Json values = json[3].is_array() || json[3].is_null() ? json[3] : Json::array({json[3]});
  if (!values.is_null() && is_float) fixed.default_value = values.get<FloatList>();
  if (!values.is_null() && !is_float) fixed.default_value = values.get<Int64List>();
  return {name, fixed};
}

/// What the parser gives, as the table has it.
template <class Input>
Json parsed(const ExampleFeatures& parse, const Input& input) {
  try {
    const NamedTensors tensors = parse(input);
    Json result = Json::object();
    for (const std::string& name : tensors.names()) {
      const at::Tensor& tensor = tensors[name];
      Json values = Json::array();
      const at::Tensor flat = tensor.reshape({-1});
      for (std::int64_t i = 0; i < flat.numel(); ++i) {
        if (tensor.is_floating_point()) {
          values.push_back(flat[i].item<double>());
        } else {
          values.push_back(flat[i].item<std::int64_t>());
        }
      }
      result[name] = {{"dtype", device::file_dtype_of(tensor.scalar_type())->name},
                      {"shape", tensor.sizes().vec()},
                      {"values", values}};
    }
    return result;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return "(failed)";
  }
}

TEST(ExampleFeatures, MatchesTensorFlow) {
  const data::testing::Table table("parse_example");
  for (const char* name : {"fixed",
                           "fixed of two dimensions",
                           "fixed, missing in one",
                           "fixed, missing with a default",
                           "fixed, too many",
                           "fixed, of another kind",
                           "fixed of no values",
                           "padded",
                           "padded steps",
                           "padded steps, some of no whole number",
                           "padded, missing in all",
                           "padded, of another kind",
                           "raw",
                           "raw of wider numbers",
                           "raw of one number",
                           "raw of other sizes",
                           "raw of other sizes for a shape",
                           "raw, part of a number",
                           "raw, missing with a default",
                           "raw, missing",
                           "all at once"}) {
    SCOPED_TRACE(name);
    const Json& at = table.at(name);
    std::vector<TensorFeature> features;
    for (const auto& [feature, wanted] : at.at("wanted").items()) {
      features.push_back(wanted_of(feature, wanted));
    }
    const ExampleFeatures parse(std::move(features));
    std::vector<std::string> examples;
    for (const Json& hex : table.at("examples")) {
      examples.push_back(data::testing::bytes_of_hex(hex.get<std::string>()));
    }
    EXPECT_EQ(parsed(parse, examples), at.at("batch"));
    for (std::size_t i = 0; i < examples.size(); ++i) {
      EXPECT_EQ(parsed(parse, examples[i]), at.at("single")[i]) << "example " << i;
    }
  }
}

TEST(ExampleFeatures, ErrorsNameTheProblemInABatch) {
  const std::vector<std::string> examples = {record(1), bytes_of({{"image", Int64List{1}}})};
  expect_invalid_argument([&] { parser()(examples); },
                          "\"image\" of example 1 of a batch, counted from 0, is of kind int64; "
                          "expected bytes");
  expect_invalid_argument([&] { parser()(bytes_of({})); },
                          "\"image\" of an example is missing, and has no default");
  const ExampleFeatures one({{"image", RawFeature{.dtype = at::kFloat, .shape = {{1}}}}});
  expect_invalid_argument([&] { one(record(1)); }, "has 2 bytes; its shape [1] of Float needs 4");
  const ExampleFeatures label(
      {{"label", FixedLenFeature{.kind = FeatureKind::kInt64, .shape = {2}}}});
  expect_invalid_argument([&] { label(record(1)); }, "has 1 values; its shape [2] needs 2");
  const ExampleFeatures steps(
      {{"words", PaddedFeature{.kind = FeatureKind::kInt64, .shape = {2}}}});
  expect_invalid_argument([&] { steps(record(3)); },
                          "has 3 values; its steps of shape [2] need a multiple of 2");
}

TEST(ExampleFeatures, NamesTheMalformedExample) {
  const std::string broken = record(1).substr(0, 9);
  const Error error = error_of([&] { parser()(std::vector{record(1), broken}); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("Example 1 of a batch"), std::string::npos)
      << error.what();
  EXPECT_EQ(error_of([&] { parser()(broken); }).code(), ErrorCode::kDataLoss);
}

void expect_refused(std::vector<TensorFeature> features, const std::string& why) {
  expect_invalid_argument([&] { ExampleFeatures(std::move(features)); }, why);
}

TEST(ExampleFeatures, RefusesFeaturesWithoutATensor) {
  expect_refused({{"x", FixedLenFeature{.kind = FeatureKind::kBytes}}}, "use RawFeature");
  expect_refused({{"x", PaddedFeature{.kind = FeatureKind::kBytes}}}, "use RawFeature");
  expect_refused({{"x", FixedLenFeature{.kind = FeatureKind::kNone}}}, "is requested as none");
  expect_refused({{"x", FixedLenFeature{.shape = {-1}}}}, "has the shape [-1]");
  expect_refused({{"x", RawFeature{.shape = {{-1}}}}}, "has the shape [-1]");
  expect_refused({{"x", PaddedFeature{.shape = {2, 0}}}}, "steps of shape [2, 0]");
  expect_refused({{"x", FixedLenFeature{.default_value = Int64List{1}}}}, "its default is int64");
  expect_refused({{"x", PaddedFeature{.kind = FeatureKind::kInt64, .padding = 0.5}}},
                 "padding is not a whole number");
  expect_refused({{"x", RawFeature{.dtype = at::kComplexFloat}}}, "ComplexFloat; allowed are");
  expect_refused({{"x", RawFeature{.dtype = at::kBool}}}, "Bool; allowed are");
  expect_refused({{"x", RawFeature{.shape = {{2}}, .lengths = "n"}}}, "leave out `lengths`");
  expect_refused({{"x", RawFeature{.shape = {{2}}, .default_value = "a"}}},
                 "a default of 1 bytes; its shape needs 2");
  expect_refused({{"x", RawFeature{.dtype = at::kShort, .default_value = "a"}}},
                 "needs a multiple of 2");
}

TEST(ExampleFeatures, RefusesDuplicateNames) {
  expect_refused({{"x", FixedLenFeature{}}, {"x", RawFeature{}}}, "\"x\" is requested twice");
  expect_refused({{"x", FixedLenFeature{}}, {"y", PaddedFeature{.lengths = "x"}}},
                 "\"x\" is requested twice");
}

}  // namespace
}  // namespace brigade::input
