#include "brigade/train/model/loss.h"

#include <ATen/ops/one_hot.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::train {
namespace {

at::Tensor matrix(std::vector<float> values, std::int64_t rows) {
  return at::tensor(values).view({rows, -1});
}

// Keras 3's (TensorFlow 2.21) for the same numbers, in float32.
TEST(Loss, MatchesKeras) {
  const at::Tensor labels = at::tensor({2, 0, 1}, at::kLong);
  const at::Tensor one_hot = at::one_hot(labels, 3);
  const at::Tensor scores = matrix({.1f, .2f, .7f, .5f, .3f, .2f, .3f, .3f, .4f}, 3);
  const at::Tensor truth = matrix({1, 0, 0, 1, 1, 1}, 3);
  const at::Tensor guess = matrix({.9f, .2f, .4f, .6f, 1.f, .0f}, 3);
  struct Case {
    Loss loss;
    at::Tensor labels, predictions;
    double value;
  };
  for (const auto& [loss, y, p, value] : std::vector<Case>{
           {"sparse_categorical_crossentropy", labels, scores, 0.7512649893760681},
           {"SparseCategoricalCrossentropy", labels.unsqueeze(1), scores, 0.7512649893760681},
           {{"sparse_categorical_crossentropy", {.from_logits = true}},
            labels,
            scores,
            0.9469497799873352},
           {"categorical_crossentropy", one_hot, scores, 0.7512649893760681},
           {"binary_crossentropy", truth, guess, 2.911375045776367},
           {{"bce", {.from_logits = true}}, truth, guess, 0.582700788974762},
           {"mse", truth, guess, 0.22833333909511566},
           {"mean_absolute_error", truth, guess, 0.3499999940395355}}) {
    const at::Tensor each = loss(y, p);
    EXPECT_EQ(each.sizes(), (std::vector<std::int64_t>{3})) << loss.name();
    EXPECT_NEAR(each.mean().item<double>(), value, 2e-6) << loss.name();
  }
}

TEST(Loss, TakesAFunction) {
  const Loss loss([](const at::Tensor& y, const at::Tensor& p) { return (y - p).abs().mean(); });
  EXPECT_EQ(loss(at::tensor({1.0, 2.0}), at::tensor({2.0, 4.0})).item<double>(), 1.5);
  EXPECT_EQ(loss.name(), "function");
}

TEST(Loss, UnknownNamesAreRefusedWithTheNearestName) {
  try {
    Loss("sparse_categorical_crossentrophy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("did you mean 'sparse_categorical_crossentropy'?"),
              std::string::npos);
  }
}

TEST(Loss, DetectsLogitsInsteadOfProbabilities) {
  const at::Tensor logits = matrix({-1.f, 3.f}, 1), probabilities = matrix({.25f, .75f}, 1);
  const Loss probabilistic("sparse_categorical_crossentropy");
  EXPECT_NE(probabilistic.prediction_problem(logits), "");
  EXPECT_EQ(probabilistic.prediction_problem(probabilities), "");
  EXPECT_EQ(Loss("mse").prediction_problem(logits), "");
  EXPECT_EQ(Loss("bce", {.from_logits = true}).prediction_problem(logits), "");
  EXPECT_NE(Loss("bce").prediction_problem(logits), "");
}

}  // namespace
}  // namespace brigade::train
