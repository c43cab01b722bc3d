#include "brigade/layers/losses.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::layers::losses {
namespace {

at::Tensor tensor(std::vector<double> values, std::vector<std::int64_t> shape) {
  return torch::tensor(values, at::kDouble).view(shape);
}
at::Tensor numbers(std::vector<std::int64_t> values) {
  return torch::tensor(values, at::kLong);
}

// Two examples whose softmax is (1/4, 3/4) and (1/2, 1/2).
at::Tensor two_logits() {
  return tensor({0.0, std::log(3.0), 2.0, 2.0}, {2, 2});
}
at::Tensor two_probabilities() {
  return tensor({0.25, 0.75, 0.5, 0.5}, {2, 2});
}
const double kFirst = std::log(4.0 / 3.0), kSecond = std::log(2.0);

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(SparseSoftmaxCrossEntropy, IsTheMeanOverTheExamples) {
  const auto loss = sparse_softmax_cross_entropy(two_logits(), numbers({1, 0}));
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_NEAR(loss.item<double>(), (kFirst + kSecond) / 2, 1e-15);
}

TEST(SparseSoftmaxCrossEntropy, TakesLabelsOfAnyIntegralType) {
  for (const auto type : {at::kByte, at::kShort, at::kInt, at::kLong}) {
    const auto loss = sparse_softmax_cross_entropy(two_logits(), numbers({1, 0}).to(type));
    EXPECT_NEAR(loss.item<double>(), (kFirst + kSecond) / 2, 1e-15) << type;
  }
}

TEST(SparseSoftmaxCrossEntropy, GradientIsSoftmaxMinusOneHotOverCount) {
  const auto logits = two_logits().requires_grad_();
  sparse_softmax_cross_entropy(logits, numbers({1, 0})).backward();
  EXPECT_TRUE(at::allclose(logits.grad(), tensor({0.125, -0.125, -0.25, 0.25}, {2, 2})));
}

TEST(SparseCategoricalCrossentropy, ReducesAsAsked) {
  const auto labels = numbers({1, 0});
  for (const bool from_logits : {true, false}) {
    const auto input = from_logits ? two_logits() : two_probabilities();
    const auto loss = [&](Reduction reduction) {
      return sparse_categorical_crossentropy(input, labels,
                                             {.from_logits = from_logits, .reduction = reduction});
    };
    EXPECT_TRUE(at::allclose(loss(Reduction::kNone), tensor({kFirst, kSecond}, {2})));
    EXPECT_NEAR(loss(Reduction::kSum).item<double>(), kFirst + kSecond, 1e-14);
    EXPECT_NEAR(loss(Reduction::kMean).item<double>(), (kFirst + kSecond) / 2, 1e-14);
  }
}

TEST(SparseCategoricalCrossentropy, ClipsProbabilitiesAsKeras) {
  const auto loss = sparse_categorical_crossentropy(tensor({1.0, 0.0}, {1, 2}), numbers({1}),
                                                    {.from_logits = false});
  EXPECT_NEAR(loss.item<double>(), -std::log(1e-7), 1e-9);
}

TEST(SparseCategoricalCrossentropy, NormalizesProbabilities) {
  const auto loss = sparse_categorical_crossentropy(tensor({0.1, 0.3}, {1, 2}), numbers({1}),
                                                    {.from_logits = false});
  EXPECT_NEAR(loss.item<double>(), kFirst, 1e-14);
}

TEST(CategoricalCrossentropy, MatchesHandComputedValues) {
  const auto labels = tensor({0.0, 1.0, 0.5, 0.5}, {2, 2});  // the second row: log 2 either way
  for (const bool from_logits : {true, false}) {
    const auto input = from_logits ? two_logits() : two_probabilities() * 3.0;
    const auto loss = [&](Reduction reduction) {
      return categorical_crossentropy(input, labels,
                                      {.from_logits = from_logits, .reduction = reduction});
    };
    EXPECT_TRUE(at::allclose(loss(Reduction::kNone), tensor({kFirst, kSecond}, {2})));
    EXPECT_NEAR(loss(Reduction::kSum).item<double>(), kFirst + kSecond, 1e-14);
    EXPECT_NEAR(loss(Reduction::kMean).item<double>(), (kFirst + kSecond) / 2, 1e-14);
  }
  const auto certain = categorical_crossentropy(tensor({1.0, 0.0}, {1, 2}),
                                                tensor({0.0, 1.0}, {1, 2}), {.from_logits = false});
  EXPECT_NEAR(certain.item<double>(), -std::log(1e-7), 1e-9);
}

TEST(Losses, EmptyBatchSumsToZeroWithAGraph) {
  const auto logits = torch::empty({0, 10}).requires_grad_();
  const auto labels = torch::empty({0}, at::kLong);
  const auto dense = torch::empty({0, 10});
  for (const bool from_logits : {true, false}) {
    const LossOptions none{.from_logits = from_logits, .reduction = Reduction::kNone};
    const LossOptions sum{.from_logits = from_logits, .reduction = Reduction::kSum};
    EXPECT_EQ(sparse_categorical_crossentropy(logits, labels, none).sizes(),
              std::vector<std::int64_t>{0});
    EXPECT_EQ(categorical_crossentropy(logits, dense, none).sizes(), std::vector<std::int64_t>{0});
    for (const auto& loss : {sparse_categorical_crossentropy(logits, labels, sum),
                             categorical_crossentropy(logits, dense, sum)}) {
      EXPECT_EQ(loss.item<double>(), 0.0);
      loss.backward();
      EXPECT_EQ(logits.grad().sizes(), logits.sizes());
    }
  }
  EXPECT_TRUE(std::isnan(sparse_softmax_cross_entropy(logits, labels).item<double>()));
}

TEST(Losses, NameShapesThatDoNotFit) {
  const auto labels = numbers({1, 0});
  EXPECT_NE(message_of([&] {
              sparse_softmax_cross_entropy(two_logits(), numbers({1, 0, 1}));
            }).find("[3] and predictions have shape [2, 2]"),
            std::string::npos);
  message_of([&] { sparse_softmax_cross_entropy(torch::ones({2, 2, 2}), labels); });
  message_of([&] { sparse_softmax_cross_entropy(two_logits().to(at::kLong), labels); });
  message_of([&] { sparse_softmax_cross_entropy(two_logits(), labels.to(at::kFloat)); });
  message_of([&] { sparse_softmax_cross_entropy(two_logits(), labels.view({2, 1})); });
  message_of([&] { sparse_softmax_cross_entropy(two_logits(), at::Tensor()); });
  message_of([&] { categorical_crossentropy(two_logits(), torch::ones({2, 3})); });
}

TEST(Losses, NameTheLabelThatIsNotAClass) {
  const auto message = message_of([&] {
    sparse_softmax_cross_entropy(two_logits(), numbers({1, 2}));
  });
  EXPECT_NE(message.find("label 2 of example 1"), std::string::npos) << message;
  EXPECT_NE(message.find("2 classes"), std::string::npos) << message;
  message_of([&] { sparse_softmax_cross_entropy(two_logits(), numbers({0, -100})); });
}

TEST(ComputeAverageLoss, DividesBySizeOfTheGlobalBatch) {
  const auto losses = tensor({1.0, 2.0, 3.0}, {3});
  EXPECT_DOUBLE_EQ(compute_average_loss(losses, 12).item<double>(), 0.5);
  EXPECT_DOUBLE_EQ(compute_average_loss(losses, 4, tensor({0.0, 0.5, 1.0}, {3})).item<double>(),
                   1.0);
}

TEST(ComputeAverageLoss, OfHalvesIsRoundedOnceAfterTheDivision) {
  const auto losses = torch::full({2}, 40000.0, at::kHalf);
  EXPECT_EQ(compute_average_loss(losses, 2).item<double>(), 40000.0);
  EXPECT_EQ(compute_average_loss(losses, 2).scalar_type(), at::kHalf);
  EXPECT_EQ(scale_regularization_loss(losses, 2).item<double>(), 40000.0);
}

TEST(ComputeAverageLoss, IsZeroWithFiniteGradientsForNoExamples) {
  const auto losses = tensor({1.0, 2.0}, {2}).requires_grad_();
  const auto loss = compute_average_loss(losses, 0);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0.0);
  EXPECT_EQ(losses.grad().abs().sum().item<double>(), 0.0);
  EXPECT_EQ(compute_average_loss(torch::empty({0}), 8).item<double>(), 0.0);
}

TEST(ComputeAverageLoss, RefusesScalarsAndNegativeCounts) {
  message_of([] { compute_average_loss(torch::ones({}), 4); });
  message_of([] { compute_average_loss(torch::ones({4}), -1); });
}

TEST(ScaleRegularizationLoss, DividesByReplicas) {
  EXPECT_DOUBLE_EQ(scale_regularization_loss(torch::full({}, 6.0), 3).item<double>(), 2.0);
  message_of([] { scale_regularization_loss(torch::ones({}), 0); });
}

}  // namespace
}  // namespace brigade::layers::losses
