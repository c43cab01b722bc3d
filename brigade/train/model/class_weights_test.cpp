#include "brigade/train/model/class_weights.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::train::internal {
namespace {

using distribute::error_from;

std::vector<double> values(const at::Tensor& weights) {
  const at::Tensor flat = weights.contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// Results of Keras 3.15's class_weight_to_sample_weights (tools/keras/fit_values.py).
TEST(ClassWeights, AreThoseOfKerasForEachFormOfLabels) {
  EXPECT_EQ(values(ClassWeights({{0, 2.0}, {5, 0.25}}).of(at::tensor({0, 1, 2, 5, 0}))),
            (std::vector<double>{2, 1, 1, 0.25, 2}));
  const at::Tensor one_hot = at::eye(3).index_select(0, at::tensor({2, 0, 1}));
  EXPECT_EQ(values(ClassWeights({{0, 2.0}, {2, 0.25}}).of(one_hot)),
            (std::vector<double>{0.25, 2, 1}));
  EXPECT_EQ(values(ClassWeights({{2, 3.0}}).of(at::tensor({1.0, 2.2}).unsqueeze(1))),
            (std::vector<double>{1, 3}));
}

TEST(ClassWeights, ClassesMayBeAnyNumbers) {
  constexpr std::int64_t kLarge = std::numeric_limits<std::int64_t>::max();
  const ClassWeights weights({{-1, 0.5}, {kLarge, 4.0}});
  EXPECT_EQ(values(weights.of(at::tensor(std::vector<std::int64_t>{-1, 0, kLarge, -2}, at::kLong))),
            (std::vector<double>{0.5, 1, 4, 1}));
  EXPECT_EQ(weights.of(at::tensor(std::vector<std::int64_t>(), at::kLong)).numel(), 0);
}

TEST(ClassWeights, BadWeightsAreRefusedByClass) {
  for (const double bad : {-1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    const Error error = error_from([&] { ClassWeights({{0, 1.0}, {7, bad}}); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("of class 7 is"), std::string::npos) << error.what();
  }
}

TEST(ClassWeights, NeedOneLabelWithoutSampleWeights) {
  const ClassWeights weights({{1, 3.0}});
  ModelBatch batch{.inputs = unnamed(at::eye(2)), .labels = unnamed(at::tensor({0, 1}))};
  EXPECT_EQ(values(weights.applied_to(batch).sample_weights[""]), (std::vector<double>{1, 3}));
  batch.sample_weights = unnamed(at::tensor({1.0, 2.0}));
  EXPECT_EQ(error_from([&] { weights.applied_to(batch); }).code(), ErrorCode::kInvalidArgument);
  batch.sample_weights = {};
  batch.labels = input::NamedTensors({{"a", at::tensor({0, 1})}, {"b", at::tensor({0, 1})}});
  EXPECT_EQ(error_from([&] { weights.applied_to(batch); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::train::internal
