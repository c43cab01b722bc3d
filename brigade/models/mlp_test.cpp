#include "brigade/models/mlp.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::models {
namespace {

TEST(Mlp, ChainsLinearLayersWithReluBetween) {
  Mlp model({.inputs = 6, .hidden = {5, 4}, .classes = 3});
  const auto batch = torch::randn({7, 2, 3});
  const auto p = model.named_parameters();
  auto x = at::relu(at::linear(batch.flatten(1), p["dense1.weight"], p["dense1.bias"]));
  x = at::relu(at::linear(x, p["dense2.weight"], p["dense2.bias"]));
  x = at::linear(x, p["dense3.weight"], p["dense3.bias"]);
  EXPECT_TRUE(at::allclose(model(batch), x));
}

TEST(Mlp, FourLayersOfSixtyFour) {
  Mlp model({.inputs = 64, .hidden = {64, 64, 64}, .classes = 64});
  EXPECT_EQ(model.parameters().size(), 8U);
  std::int64_t count = 0;
  for (const auto& each : model.parameters()) count += each.numel();
  EXPECT_EQ(count, 4 * (64 * 64 + 64));
}

TEST(Mlp, AnEmptyBatchUsesEveryParameter) {
  Mlp model;
  const auto logits = model(torch::empty({0, 28, 28}));
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{0, 10}));
  logits.sum().backward();
  for (const auto& each : model.parameters()) EXPECT_TRUE(each.grad().defined());
}

TEST(Mlp, RefusesOtherShapesAndWidths) {
  Mlp model;
  EXPECT_THROW(model(torch::ones({2, 783})), Error);
  EXPECT_THROW(model(torch::ones({784})), Error);
  EXPECT_THROW(model(at::Tensor()), Error);
  EXPECT_THROW(Mlp({.inputs = 0}), Error);
  EXPECT_THROW(Mlp({.hidden = {64, -1}}), Error);
}

}  // namespace
}  // namespace brigade::models
