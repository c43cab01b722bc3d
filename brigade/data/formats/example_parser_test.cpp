#include "brigade/data/formats/example_parser.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tables.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Json = nlohmann::json;

FeatureKind kind_named(const std::string& name) {
  if (name == "bytes") return FeatureKind::kBytes;
  return name == "float" ? FeatureKind::kFloat : FeatureKind::kInt64;
}

Feature feature_of(const Json& values, FeatureKind kind) {
  if (kind == FeatureKind::kBytes) return values.get<BytesList>();
  if (kind == FeatureKind::kFloat) return values.get<FloatList>();
  return values.get<Int64List>();
}

/// What tools/tf_data/example.py writes: [kind, shape or "var", default].
FeatureSpec spec_of(const std::string& name, const Json& wanted) {
  const FeatureKind kind = kind_named(wanted[0]);
  if (wanted[1].is_string()) return {name, VarLenFeature{.kind = kind}};
  FixedLenFeature fixed{.kind = kind, .shape = wanted[1].get<std::vector<std::int64_t>>()};
  if (!wanted[2].is_null()) {
    fixed.default_value =
        feature_of(wanted[2].is_array() ? wanted[2] : Json::array({wanted[2]}), kind);
  }
  return {name, fixed};
}

TEST(ExampleParser, MatchesTensorFlow) {
  const Table table("example");
  for (const char* name :
       {"image and label", "lists of any length", "a shape", "another shape",
        "no values for a scalar", "no values for no values", "of no kind",
        "of no kind with a default", "missing", "missing with a default", "another kind",
        "another kind with a default", "another kind of any length", "nothing at all"}) {
    SCOPED_TRACE(name);
    const Json& example = table.at(name);
    std::vector<FeatureSpec> specs;
    for (const auto& [feature, wanted] : example.at("wanted").items()) {
      specs.push_back(spec_of(feature, wanted));
    }
    const ExampleParser parse(specs);
    const std::string bytes = bytes_of_hex(example.at("bytes").get<std::string>());
    const Json& expected = example.at("parsed");
    if (expected.is_string()) {
      const Error error = error_of([&] { parse(bytes); });
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(specs[0].name), std::string::npos) << error.what();
      continue;
    }
    const ParsedExample parsed = parse(bytes);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const FeatureKind kind = kind_named(example.at("wanted").at(specs[i].name)[0]);
      EXPECT_EQ(parsed.features[i], feature_of(expected.at(specs[i].name), kind)) << specs[i].name;
    }
  }
}

ExampleParser image_and_label() {
  return ExampleParser({{"image", FixedLenFeature{.kind = FeatureKind::kBytes}},
                        {"label", FixedLenFeature{.kind = FeatureKind::kInt64}}});
}

TEST(ExampleParser, IsAFunctionForMap) {
  const std::vector<std::string> records = {
      serialize({.features = {{"label", Int64List{7}}, {"image", BytesList{"pixels"}}}}), "broken",
      serialize({.features = {{"image", BytesList{"more"}}, {"label", Int64List{-1}}}})};
  auto iterator = from_elements(records).map(image_and_label(), {.parallelism = 2}).iterator();
  const auto first = iterator.next();
  EXPECT_EQ(first->value<std::string>(0), "pixels");
  EXPECT_EQ(first->value<std::int64_t>(1), 7);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next()->value<std::int64_t>(1), -1);
}

TEST(ExampleParser, IndexesFeaturesByName) {
  EXPECT_EQ(image_and_label().index_of("label"), 1U);
  const Error error = error_of([] { image_and_label().index_of("lable"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("image, label"), std::string::npos) << error.what();
}

TEST(ParsedExample, RefusesMissingFeaturesAndWrongKinds) {
  const ParsedExample example{.features = {Int64List{1, 2}}};
  expect_invalid_argument([&] { example.values<float>(0); }, "requested float");
  expect_invalid_argument([&] { example.value<std::int64_t>(0); }, "requested one value");
  expect_invalid_argument([&] { example.values<float>(1); }, "no feature 1");
  EXPECT_EQ(example.values<std::int64_t>(0), (Int64List{1, 2}));
}

TEST(ExampleParser, RefusesWhatCannotBe) {
  const auto made = [](FixedLenFeature fixed) {
    return [fixed] { ExampleParser({{"a", fixed}}); };
  };
  expect_invalid_argument(made({.kind = FeatureKind::kNone}), "\"a\" is requested as none");
  expect_invalid_argument(made({.shape = {2, -1}}), "shape [2, -1]");
  expect_invalid_argument(made({.shape = {1LL << 40, 1LL << 40}}), "shape");
  expect_invalid_argument(made({.default_value = Int64List{1}}), "its default is int64");
  expect_invalid_argument(made({.shape = {2}, .default_value = FloatList{1}}), "default of 1");
  expect_invalid_argument(
      [] {
        ExampleParser({{"a", VarLenFeature{}}, {"b", VarLenFeature{}}, {"a", VarLenFeature{}}});
      },
      "requested twice");
}

}  // namespace
}  // namespace brigade::data
