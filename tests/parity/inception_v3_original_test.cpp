// Inception v3 computes what torchvision's and TF-Slim's do: logits, loss and every gradient, for
// the size of the original and a smaller one. make_inception_v3_values.py made the numbers.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/layers/arg_scope.h"
#include "brigade/models/inception_v3.h"
#include "brigade/models/torchvision_names.h"
#include "brigade/variables/graph.h"
#include "tests/parity/original_values.h"

namespace brigade::parity {
namespace {

using variables::Mode;

struct Case {
  std::string original;
  std::int64_t side;
  bool training;
};

class InceptionV3Original : public ::testing::TestWithParam<Case> {};

TEST_P(InceptionV3Original, LogitsLossAndGradientsAreEqual) {
  const auto& [original, side, training] = GetParam();
  const bool is_torchvisions = original == "torchvision";
  const OriginalCase wanted =
      read_original_case(BRIGADE_INCEPTION_V3_VALUES, original, side, training);
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto defaults = layers::arg_scope(models::inception_v3_arg_scope(
      {.batch_norm_scale = is_torchvisions, .count_padding = is_torchvisions}));
  models::InceptionV3Options options{.num_classes = 10,
                                     .mode = training ? Mode::kTraining : Mode::kEvaluation,
                                     .dropout_keep_prob = 1.0,
                                     .create_aux_logits = !wanted.auxiliary.empty(),
                                     .global_pool = is_torchvisions};
  // In float64, as the original: rounding would decide which side of a relu values are on.
  models::inception_v3(at::zeros({0, 3, side, side}, at::kDouble), options);
  const auto names = is_torchvisions ? models::torchvision_names("inception_v3") : OriginalNames();
  set_pattern_weights(names);

  options.reuse = variables::Reuse::kYes;
  const auto images = models::pattern_values("images", {2, 3, side, side}).to(at::kDouble);
  const auto net = models::inception_v3(images, options);
  const auto labels = at::tensor({3, 8}, at::kLong);
  auto loss = at::cross_entropy_loss(net.output, labels);
  expect_rows(net.output, wanted.logits, 1e-4);
  if (options.create_aux_logits) {
    const auto& auxiliary = net.end_points.at("AuxLogits");
    expect_rows(auxiliary, wanted.auxiliary, 1e-4);
    loss = loss + 0.4 * at::cross_entropy_loss(auxiliary, labels);
  }
  EXPECT_NEAR(loss.item<double>(), wanted.loss, 1e-4 * wanted.loss);
  loss.backward();
  expect_gradients(wanted, names, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Originals, InceptionV3Original,
                         ::testing::Values(Case{"torchvision", 299, true},
                                           Case{"torchvision", 299, false},
                                           Case{"torchvision", 151, true},
                                           Case{"torchvision", 151, false},
                                           Case{"tf_slim", 299, true}, Case{"tf_slim", 299, false},
                                           Case{"tf_slim", 151, true}, Case{"tf_slim", 151, false}),
                         [](const auto& tested) {
                           return tested.param.original + "_" + std::to_string(tested.param.side) +
                                  (tested.param.training ? "_training" : "_evaluation");
                         });

}  // namespace
}  // namespace brigade::parity
