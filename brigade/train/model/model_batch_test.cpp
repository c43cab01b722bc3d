#include "brigade/train/model/model_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/split.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using input::NamedTensors;

ModelBatch seven_examples() {
  return {.inputs = NamedTensors({{"a", at::arange(7)}, {"b", at::zeros({7, 2})}}),
          .labels = unnamed(at::arange(7) * 10)};
}

TEST(ModelBatch, IsSplitWithAllItsTensorsAndWithoutThoseItHasNot) {
  const std::vector<ModelBatch> parts = input::split_batch(seven_examples(), 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].inputs["a"].size(0), 2);
  EXPECT_EQ(parts[1].inputs["b"].sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(parts[1].label()[0].item<std::int64_t>(), 30);
  EXPECT_TRUE(parts[2].sample_weights.tensors().empty());
  EXPECT_EQ(input::split_batch(seven_examples(), 9)[8].examples(), 0);
}

TEST(ModelBatch, ABatchOfElementsHasTheirTensors) {
  const auto element = [](double value) {
    return ModelBatch{.inputs = unnamed(at::tensor({value})), .labels = unnamed(at::tensor(value))};
  };
  const ModelBatch batch = data::Structure<ModelBatch>::stack({element(1), element(2)});
  EXPECT_EQ(batch.input().sizes(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(batch.label()[1].item<double>(), 2.0);
}

TEST(ModelBatch, ItsOnlyTensorIsThatOfAnyName) {
  EXPECT_EQ(seven_examples().label().size(0), 7);
  const Error error = error_from([] { seven_examples().input(); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("2 inputs (a, b)"), std::string::npos) << error.what();
}

TEST(ModelBatch, IsMadeOfTuplesAndLabeledBatches) {
  const at::Tensor x = at::zeros({2, 3}), y = at::ones({2}), w = at::ones({2}) * 5;
  using internal::to_model_batch;
  EXPECT_EQ(to_model_batch(std::pair(x, y)).label().sum().item<double>(), 2);
  EXPECT_EQ(to_model_batch(std::tuple(x, y)).label().sum().item<double>(), 2);
  EXPECT_EQ(to_model_batch(std::tuple(x, y, w)).sample_weights[""].sum().item<double>(), 10);
  const NamedTensors named({{"image", x}});
  EXPECT_TRUE(to_model_batch(std::tuple(named, y, w)).inputs.contains("image"));
  const input::LabeledBatch labeled{.features = x, .labels = y};
  EXPECT_EQ(to_model_batch(std::pair(labeled, w)).sample_weights[""].sum().item<double>(), 10);
  static_assert(BatchForModel<std::tuple<NamedTensors, NamedTensors, NamedTensors>>);
  static_assert(BatchForModel<std::tuple<input::LabeledBatch, at::Tensor>>);
  static_assert(!BatchForModel<at::Tensor> && !BatchForModel<NamedTensors>);
}

TEST(ModelBatch, BadPartsAreRefusedByName) {
  const auto checked_with = [](at::Tensor weights) {
    ModelBatch batch = seven_examples();
    batch.sample_weights = NamedTensors({{"main", std::move(weights)}});
    return error_from([&] { internal::checked(batch); });
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto with_value = [](double value) {
    at::Tensor weights = at::ones({7}, at::kDouble);
    weights[3] = value;
    return weights;
  };
  for (const auto& [weights, part] : std::vector<std::pair<at::Tensor, std::string>>{
           {with_value(-0.5), "'main' has the value -0.5"},
           {with_value(kNan), "'main' has the value NaN"},
           {with_value(INFINITY), "'main' has the value inf"},
           {at::ones({6}), "sample weight 'main' of a batch has shape [6]"},
           {at::ones({}), "sample weight 'main' of a batch has shape []"},
           {at::Tensor(), "is undefined"}}) {
    const Error error = checked_with(weights);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << part;
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  for (const at::Tensor& good : {at::zeros({7}), at::ones({7, 1}), at::ones({7}, at::kBool)}) {
    ModelBatch batch = seven_examples();
    batch.sample_weights = unnamed(good);
    EXPECT_NO_THROW(internal::checked(batch));
  }
  const Error no_input = error_from([] { internal::checked({.inputs = {}}); });
  EXPECT_EQ(no_input.code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::train
