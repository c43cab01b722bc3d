#include "brigade/models/weights_record.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "brigade/base/error.h"

namespace brigade::models {
namespace {

WeightsRecord inception() {
  WeightsRecord record{.model = "inception_v3",
                       .options = {.classes = 3,
                                   .hidden = {},
                                   .dropout = 0.5,
                                   .image_shape = {3, 299, 299},
                                   .original = Original::kTorchvision,
                                   .auxiliary_logits = true}};
  record.preprocessing = Preprocessing{.resize = 342,
                                       .interpolation = image::Interpolation::kBicubic,
                                       .crop = {299, 299},
                                       .scale = 1.0 / 255,
                                       .mean = {0.5, 0.4, 0.3},
                                       .deviation = {0.5, 0.25, 0.125}};
  record.categories = {"tench", "gold\"fish", "h\u00fchner"};
  return record;
}

void expect_equal(const WeightsRecord& a, const WeightsRecord& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.options.inputs, b.options.inputs);
  EXPECT_EQ(a.options.classes, b.options.classes);
  EXPECT_EQ(a.options.hidden, b.options.hidden);
  EXPECT_EQ(a.options.dropout, b.options.dropout);
  EXPECT_EQ(a.options.image_shape, b.options.image_shape);
  EXPECT_EQ(a.options.original, b.options.original);
  EXPECT_EQ(a.options.auxiliary_logits, b.options.auxiliary_logits);
  EXPECT_EQ(a.preprocessing, b.preprocessing);
  EXPECT_EQ(a.categories, b.categories);
}

template <class Call>
std::pair<ErrorCode, std::string> refusal_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "(nothing was thrown)"};
}

TEST(WeightsRecord, IsReadAsItWasWritten) {
  expect_equal(parse_weights_record(to_json(inception()), "w"), inception());
  const WeightsRecord plain{.model = "mlp"};
  expect_equal(parse_weights_record(to_json(plain), "w"), plain);
}

// Files of this version must stay readable.
TEST(WeightsRecord, HasTheDocumentedForm) {
  EXPECT_EQ(
      to_json({.model = "mlp", .options = {.classes = 2, .hidden = {8}}, .categories = {"a", "b"}}),
      R"({"categories":["a","b"],"model":"mlp","options":{"classes":2,"hidden":[8],)"
      R"("image_shape":[],"inputs":784,"original":"tf_slim"},"version":1})");
  const WeightsRecord read = parse_weights_record(
      R"({"version":1,"model":"m","preprocessing":{"scale":1,"mean":[0],"deviation":[1.5]}})", "w");
  EXPECT_EQ(read.preprocessing->scale, 1.0);
  EXPECT_EQ(read.preprocessing->interpolation, image::Interpolation::kBilinear);
  EXPECT_EQ(read.options.classes, 10) << "what is missing has its default";
}

TEST(WeightsRecord, IsFoundInMetadata) {
  EXPECT_FALSE(find_weights_record({{"format", "pt"}}, "w").has_value());
  const auto found =
      find_weights_record({{std::string(kWeightsRecordKey), to_json(inception())}}, "w");
  ASSERT_TRUE(found.has_value());
  expect_equal(*found, inception());
}

TEST(WeightsRecord, RefusesToWriteWhatContradictsItself) {
  const auto refused = [](auto change) {
    WeightsRecord record = inception();
    change(record);
    return refusal_of([&] { to_json(record); }).first;
  };
  EXPECT_EQ(refused([](WeightsRecord& r) { r.model.clear(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused([](WeightsRecord& r) { r.categories.pop_back(); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused([](WeightsRecord& r) { r.categories[0] = "\xff"; }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused([](WeightsRecord& r) { r.preprocessing->mean.pop_back(); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused([](WeightsRecord& r) {
              r.preprocessing->scale = std::numeric_limits<double>::quiet_NaN();
            }),
            ErrorCode::kInvalidArgument);
}

TEST(WeightsRecord, RefusesOtherTextNamingTheFile) {
  for (const char* text :
       {"", "[]", "{}", "null", R"({"version":1})", R"({"model":"m"})",
        R"({"version":1,"model":3})", R"({"version":1,"model":"m","categories":["a"]})",
        R"({"version":1,"model":"m","categories":[1]})", R"({"version":1,"model":"m","options":3})",
        R"({"version":1,"model":"m","options":{"classes":"2"}})",
        R"({"version":1,"model":"m","options":{"original":"keras"}})",
        R"({"version":1,"model":"m","preprocessing":{"crop":[1]}})",
        R"({"version":1,"model":"m","preprocessing":{"mean":[1]}})",
        R"({"version":1,"model":"m","preprocessing":{"scale":"$double:nan"}})",
        R"({"version":1,"model":"m","preprocessing":{"interpolation":"cubic"}})"}) {
    const auto [code, message] = refusal_of([&] { parse_weights_record(text, "w.safetensors"); });
    EXPECT_EQ(code, ErrorCode::kDataLoss) << text << message;
    EXPECT_EQ(message.find("w.safetensors: "), 0u) << message;
  }
}

// Another option would make another model.
TEST(WeightsRecord, RefusesWhatANewerVersionWrote) {
  for (const char* text :
       {R"({"version":2,"model":"m"})", R"({"version":1,"model":"m","options":{"depth":50}})",
        R"({"version":1,"model":"m","preprocessing":{"pad":4}})",
        R"({"version":1,"model":"m","quantized":true})"}) {
    EXPECT_EQ(refusal_of([&] { parse_weights_record(text, "w"); }).first, ErrorCode::kUnimplemented)
        << text;
  }
}

TEST(WeightsRecord, AChangedTextIsReadOrRefused) {
  const std::string text = to_json(inception());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    changed[random() % changed.size()] = static_cast<char>(random());
    refusal_of([&] { parse_weights_record(changed, "w"); });
  }
}

}  // namespace
}  // namespace brigade::models
