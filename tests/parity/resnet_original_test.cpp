// The ResNets compute what torchvision's and Keras's do: logits, loss, every gradient, and the
// statistics of batch norm after a step. make_resnet_values.py made the numbers.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/models/resnet.h"
#include "brigade/models/torchvision_names.h"
#include "brigade/variables/graph.h"
#include "tests/parity/original_values.h"

namespace brigade::parity {
namespace {

using variables::Mode;

struct ResNetCase {
  std::string original;
  std::int64_t side;
  bool training;
};

models::ResNetOptions options_of(const ResNetCase& tested) {
  return {.depth = tested.original == "resnet18" ? 18 : 50,
          .num_classes = 20,
          .version = tested.original == "resnet50_keras" ? models::ResNetVersion::kKeras
                                                         : models::ResNetVersion::kV15,
          .mode = tested.training ? Mode::kTraining : Mode::kEvaluation};
}

at::Tensor labels_of(std::int64_t count) {
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i * 7 % 20);
  return at::tensor(labels);
}

class ResNetOriginal : public ::testing::TestWithParam<ResNetCase> {};

// In float64, as the script: rounding errors grow where batch norm is over few values, and only so
// the comparison can be strict.
TEST_P(ResNetOriginal, LogitsLossGradientsAndStatisticsAreEqual) {
  constexpr double kTolerance = 1e-6;
  const auto& [original, side, training] = GetParam();
  const OriginalCase wanted = read_original_case(BRIGADE_RESNET_VALUES, original, side, training);
  variables::Graph graph;
  const auto opened = graph.as_default();
  auto options = options_of(GetParam());
  models::resnet(at::zeros({0, 3, side, side}, at::kDouble), options);
  const bool is_keras = options.version == models::ResNetVersion::kKeras;
  const auto names = is_keras ? OriginalNames() : models::torchvision_names(original);
  set_pattern_weights(names);

  options.reuse = variables::Reuse::kYes;
  const auto batch = static_cast<std::int64_t>(wanted.logits.size());
  const auto images = models::pattern_values("images", {batch, 3, side, side}).to(at::kDouble);
  const auto logits = models::resnet(images, options).logits;
  const auto loss = at::cross_entropy_loss(logits, labels_of(batch));
  expect_rows(logits, wanted.logits, kTolerance);
  EXPECT_NEAR(loss.item<double>(), wanted.loss, kTolerance * wanted.loss);
  loss.backward();
  expect_gradients(wanted, names, kTolerance, is_keras && training ? 1e-3 : 0.0);
  graph.run_update_ops();
  expect_statistics(wanted, names, kTolerance);
  EXPECT_EQ(wanted.statistics.empty(), !training);
}

INSTANTIATE_TEST_SUITE_P(Originals, ResNetOriginal,
                         ::testing::Values(ResNetCase{"resnet18", 96, true},
                                           ResNetCase{"resnet18", 64, false},
                                           ResNetCase{"resnet50", 64, true},
                                           ResNetCase{"resnet50", 96, false},
                                           ResNetCase{"resnet50_keras", 64, true},
                                           ResNetCase{"resnet50_keras", 96, false}),
                         [](const auto& tested) {
                           return tested.param.original + "_" + std::to_string(tested.param.side) +
                                  (tested.param.training ? "_training" : "_evaluation");
                         });

}  // namespace
}  // namespace brigade::parity
