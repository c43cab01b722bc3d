#include "brigade/distribute/strategies/pipeline_cut.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

using Names = std::vector<std::string>;

/// Layers a, b, ... whose forward and backward passes take these milliseconds.
std::vector<LayerCost> layers_of(const std::vector<std::pair<double, double>>& milliseconds) {
  std::vector<LayerCost> layers;
  for (const auto& [forward, backward] : milliseconds)
    layers.push_back({.name = std::string(1, static_cast<char>('a' + layers.size())),
                      .forward_seconds = 1e-3 * forward,
                      .backward_seconds = 1e-3 * backward});
  return layers;
}

TEST(PipelineCut, IsNamesOrAChoice) {
  EXPECT_TRUE(PipelineCut().layers().empty());
  EXPECT_FALSE(PipelineCut().automatic());
  const PipelineCut named = {"conv2", "dense1"};  // not a range of characters
  EXPECT_EQ(named.layers(), (Names{"conv2", "dense1"}));
  EXPECT_EQ(PipelineCut({"conv2"}).layers(), Names{"conv2"});
  const PipelineCut automatic = AutomaticCut{.profile_steps = 5};
  EXPECT_EQ(automatic.automatic()->profile_steps, 5);
  EXPECT_TRUE(automatic.layers().empty());
}

TEST(ChooseCut, TheSlowestStageIsAsFastAsPossible) {
  const ChosenCut chosen = choose_cut({.layers = layers_of({{1, 2}, {2, 4}, {1, 1}, {3, 5}}),
                                       .stages = 2,
                                       .micro_batches = 4,
                                       .seconds_besides = 0.006});
  EXPECT_EQ(chosen.layers, Names{"c"});
  ASSERT_EQ(chosen.stages.size(), 2U);
  EXPECT_EQ(chosen.stages[0].first_layer, "a");
  EXPECT_DOUBLE_EQ(chosen.stages[0].forward_seconds, 0.003);
  EXPECT_DOUBLE_EQ(chosen.stages[0].backward_seconds, 0.006);
  EXPECT_DOUBLE_EQ(chosen.stages[1].seconds(), 0.010);
  const double passes =
      simulate(concurrency::stage_orders(concurrency::PipelineSchedule::k1F1B, 2, 4),
               {{.forward = 0.003, .backward = 0.006}, {.forward = 0.004, .backward = 0.006}})
          .duration;
  EXPECT_DOUBLE_EQ(chosen.step_seconds, passes + 0.003);  // both devices update
  EXPECT_EQ(chosen.layer_costs.size(), 4U);
}

TEST(ChooseCut, SaysWhatItChose) {
  const ChosenCut two =
      choose_cut({.layers = layers_of({{4, 8.1}, {3.8, 8}}), .stages = 2, .micro_batches = 8});
  EXPECT_EQ(to_string(two),
            "cut before b: stages of 12.1 ms and 11.8 ms per micro-batch; predicted step 108 ms");
  const ChosenCut four = choose_cut(
      {.layers = layers_of({{1, 1}, {1, 1}, {1, 1}, {1, 1}}), .stages = 4, .micro_batches = 1});
  EXPECT_EQ(to_string(four),
            "cut before b, c and d: stages of 2.0 ms, 2.0 ms, 2.0 ms and 2.0 ms per micro-batch; "
            "predicted step 8.0 ms");
}

/// The costs of the MNIST CNN's layers, about: the second one has 60 % of all.
std::vector<LayerCost> layers_with_weights() {
  std::vector<LayerCost> layers = layers_of({{2, 2}, {10, 20}, {3, 6}, {0.2, 0.4}});
  layers[0].weight_gradient_seconds = 0.002;
  layers[1].weight_gradient_seconds = 0.010;
  layers[2].weight_gradient_seconds = 0.003;
  return layers;
}

TEST(ChooseCut, ThePredictedStepKnowsWhatIdleStagesCompute) {
  const CutProblem in_backward{.layers = layers_with_weights(), .stages = 2, .micro_batches = 8};
  const ChosenCut before = choose_cut(in_backward);
  CutProblem when_idle = in_backward;
  when_idle.deferred_micro_batches = 2;
  const ChosenCut chosen = choose_cut(when_idle);
  EXPECT_EQ(chosen.layers, Names{"c"});
  EXPECT_DOUBLE_EQ(chosen.stages[0].weight_gradient_seconds, 0.012);
  EXPECT_EQ(before.stages[0].weight_gradient_seconds, 0.0);
  // All work is 8 * 43.6 ms; the first stage alone can compute 22 of its 34 ms.
  EXPECT_NEAR(before.step_seconds, 8 * 0.034, 1e-12);
  EXPECT_LT(chosen.step_seconds, 0.8 * before.step_seconds);
  EXPECT_GT(chosen.step_seconds, 8 * 0.0436 / 2);
  EXPECT_TRUE(
      to_string(chosen).find("stages of 34.0 ms and 9.6 ms per micro-batch (12.0 ms and 3.0 "
                             "ms of it on any idle stage); predicted step") != std::string::npos)
      << to_string(chosen);
}

TEST(ChooseCut, IsByWhatAStageAloneCanComputeIfThatIsFaster) {
  // The first layer is nearly all gradient of its weight, which the other device can compute.
  std::vector<LayerCost> layers = layers_of({{1, 13}, {10, 10}, {3, 3}});
  layers[0].weight_gradient_seconds = 0.012;
  CutProblem problem{.layers = layers, .stages = 2, .micro_batches = 16};
  EXPECT_EQ(choose_cut(problem).layers, Names{"b"});
  problem.deferred_micro_batches = 2;
  const ChosenCut chosen = choose_cut(problem);
  EXPECT_EQ(chosen.layers, Names{"c"});
  EXPECT_GE(chosen.step_seconds, 16 * 0.022);
  EXPECT_LT(chosen.step_seconds, 16 * 0.026);
}

TEST(ChooseCut, DeferredGradientsKeepActivationsWithinTheBytes) {
  CutProblem problem{.layers = layers_with_weights(), .stages = 2, .micro_batches = 8};
  for (LayerCost& layer : problem.layers) layer.activation_bytes = 100;
  problem.bytes_per_stage = 100'000;
  const std::int64_t before = choose_cut(problem).stages[0].bytes;
  problem.deferred_micro_batches = 2;
  EXPECT_EQ(choose_cut(problem).stages[0].bytes, 2 * before);  // of four micro-batches, not two
}

TEST(ChooseCut, MoreStagesThanLayersAreRefused) {
  const Error error = error_from([] {
    choose_cut({.layers = layers_of({{1, 1}, {1, 1}}), .stages = 3, .micro_batches = 4});
  });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "of 3 stages")) << error.what();
  EXPECT_TRUE(mentions(error, "names 2: a, b.")) << error.what();
  EXPECT_TRUE(mentions(error_from([] { check_layers({}, 2); }), "names none"));
}

TEST(ChooseCut, StaysWithinTheBytesOfAStage) {
  CutProblem problem{
      .layers = layers_of({{1, 1}, {1, 1}, {1, 1}, {3, 3}}), .stages = 2, .micro_batches = 8};
  for (LayerCost& layer : problem.layers) {
    layer.activation_bytes = 100;
    layer.variable_bytes = 10;
  }
  // The first stage keeps two micro-batches, the second one.
  const ChosenCut free = choose_cut(problem);
  EXPECT_EQ(free.layers, Names{"d"});
  EXPECT_EQ(free.stages[0].bytes, 2 * 300 + 30);
  EXPECT_EQ(free.stages[1].bytes, 110);
  problem.bytes_per_stage = 630;
  EXPECT_EQ(choose_cut(problem).layers, Names{"d"});
  problem.bytes_per_stage = 500;
  EXPECT_EQ(choose_cut(problem).layers, Names{"c"});
  problem.bytes_per_stage = 330;
  const ChosenCut tight = choose_cut(problem);
  EXPECT_EQ(tight.layers, Names{"b"});
  EXPECT_EQ(tight.stages[1].bytes, 330);
  problem.bytes_per_stage = 329;
  const Error error = error_from([&] { choose_cut(problem); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(mentions(error, "within 329 bytes")) << error.what();
  EXPECT_TRUE(mentions(error, "needs 330 at least")) << error.what();
  problem.schedule = concurrency::PipelineSchedule::kGPipe;  // keeps all eight
  problem.bytes_per_stage = 1640;
  EXPECT_EQ(choose_cut(problem).layers, Names{"c"});
}

}  // namespace
}  // namespace brigade::distribute
