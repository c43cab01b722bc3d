#include "brigade/concurrency/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "brigade/base/error.h"

namespace brigade::concurrency {
namespace {

/// "F0 F1 B0 B1".
std::string text_of(const std::vector<StagePass>& order) {
  std::string text;
  for (const StagePass& pass : order) {
    if (!text.empty()) text += ' ';
    text += pass.direction == PassDirection::kForward ? 'F' : 'B';
    text += std::to_string(pass.micro_batch);
  }
  return text;
}

std::vector<std::string> texts_of(const StageOrders& orders) {
  std::vector<std::string> texts;
  for (const auto& order : orders) texts.push_back(text_of(order));
  return texts;
}

TEST(PipelineSchedule, GPipeMakesAllForwardPassesFirst) {
  const std::string expected = "F0 F1 F2 B0 B1 B2";
  EXPECT_EQ(texts_of(stage_orders(PipelineSchedule::kGPipe, 2, 3)),
            std::vector<std::string>({expected, expected}));
}

TEST(PipelineSchedule, OneForwardOneBackwardAlternatesAfterItsFirstForwardPasses) {
  EXPECT_EQ(texts_of(stage_orders(PipelineSchedule::k1F1B, 3, 4)),
            std::vector<std::string>(
                {"F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"}));
  EXPECT_EQ(texts_of(stage_orders(PipelineSchedule::k1F1B, 2, 2)),
            std::vector<std::string>({"F0 F1 B0 B1", "F0 B0 F1 B1"}));
}

TEST(PipelineSchedule, FewerMicroBatchesThanStagesAndASingleStage) {
  EXPECT_EQ(texts_of(stage_orders(PipelineSchedule::k1F1B, 3, 1)),
            std::vector<std::string>({"F0 B0", "F0 B0", "F0 B0"}));
  EXPECT_EQ(texts_of(stage_orders(PipelineSchedule::k1F1B, 1, 2)),
            std::vector<std::string>({"F0 B0 F1 B1"}));
}

TEST(PipelineSchedule, TheBubbleOfEqualStagesIsTheKnownFraction) {
  for (const PipelineSchedule schedule : {PipelineSchedule::kGPipe, PipelineSchedule::k1F1B}) {
    for (const int p : {1, 2, 4, 8}) {
      for (const int m : {1, 3, 8, 32}) {
        for (const double backward : {1.0, 2.0}) {
          const SimulatedStep step =
              simulate(stage_orders(schedule, p, m),
                       std::vector<PassCosts>(static_cast<std::size_t>(p),
                                              PassCosts{.forward = 1.0, .backward = backward}));
          EXPECT_NEAR(step.bubble, (p - 1.0) / (m + p - 1.0), 1e-12)
              << to_string(schedule) << " p " << p << " m " << m << " backward " << backward;
          EXPECT_DOUBLE_EQ(step.duration, (m + p - 1) * (1.0 + backward));
        }
      }
    }
  }
}

TEST(PipelineSchedule, OneForwardOneBackwardKeepsAsManyMicroBatchesAsStagesFollow) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 16}) {
      const std::vector<PassCosts> costs(static_cast<std::size_t>(p));
      const auto few = simulate(stage_orders(PipelineSchedule::k1F1B, p, m), costs);
      const auto all = simulate(stage_orders(PipelineSchedule::kGPipe, p, m), costs);
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_EQ(few.peak_micro_batches[static_cast<std::size_t>(stage)], std::min(p - stage, m));
        EXPECT_EQ(all.peak_micro_batches[static_cast<std::size_t>(stage)], m);
      }
    }
  }
}

/// "F0 F1' B1' B0": a prime for each chunk after the first.
std::string text_with_chunks(const std::vector<StagePass>& order) {
  std::string text;
  for (const StagePass& pass : order) {
    if (!text.empty()) text += ' ';
    text += text_of({pass}) + std::string(static_cast<std::size_t>(pass.chunk), '\'');
  }
  return text;
}

// As Megatron-LM's schedule orders them.
TEST(PipelineSchedule, InterleavedChunksAlternateInGroupsOfOneMicroBatchADevice) {
  const StageOrders orders = stage_orders(PipelineSchedule::kInterleaved, 2, 4, 2);
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(text_with_chunks(orders[0]), "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  EXPECT_EQ(text_with_chunks(orders[1]), "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
}

TEST(PipelineSchedule, TheBubbleOfInterleavedChunksIsBelowThatOf1F1BAsInTheory) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int v : {2, 3, 4}) {
      for (const int groups : {1, 2, 4}) {
        const int m = p * groups;
        const SimulatedStep step =
            simulate(stage_orders(PipelineSchedule::kInterleaved, p, m, v),
                     std::vector<PassCosts>(static_cast<std::size_t>(p * v), PassCosts{1.0, 2.0}));
        EXPECT_NEAR(step.bubble, (p - 1.0) / (v * m + p - 1.0), 1e-12)
            << "p " << p << " v " << v << " m " << m;
      }
    }
  }
}

TEST(PipelineSchedule, InterleavedChunksEndForAnyNumberOfMicroBatches) {
  for (int p = 1; p <= 5; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (int m = 1; m <= 11; ++m) {
        const StageOrders orders = stage_orders(PipelineSchedule::kInterleaved, p, m, v);
        const SimulatedStep step =
            simulate(orders, std::vector<PassCosts>(static_cast<std::size_t>(p * v)));
        for (int device = 0; device < p; ++device) {
          const auto index = static_cast<std::size_t>(device);
          EXPECT_EQ(orders[index].size(), static_cast<std::size_t>(2 * m * v));
          EXPECT_LE(step.peak_micro_batches[index],
                    std::min(2 * (p - device - 1) + (v - 1) * p + 1, m * v))
              << "p " << p << " v " << v << " m " << m << " device " << device;
        }
        EXPECT_GE(step.duration, 2.0 * m * v);
      }
    }
  }
}

TEST(PipelineSchedule, ASlowStageDecidesTheStep) {
  const auto orders = stage_orders(PipelineSchedule::kGPipe, 2, 4);
  // The second stage waits one pass of the first, and the first at the end one of its own.
  EXPECT_DOUBLE_EQ(
      simulate(orders, {{.forward = 1, .backward = 1}, {.forward = 3, .backward = 3}}).duration,
      1 + 4 * 3 + 4 * 3 + 1);
}

/// Half of a backward pass is the gradient of a weight.
PassCosts costs_with_weight(double scale) {
  return {.forward = scale, .backward = 2 * scale, .weight_gradients = {scale}};
}

TEST(PipelineSchedule, GradientsOfWeightsFillTheWaitsOfAFasterStage) {
  const auto orders = stage_orders(PipelineSchedule::k1F1B, 2, 8);
  const std::vector<PassCosts> costs = {costs_with_weight(3), costs_with_weight(1)};
  EXPECT_DOUBLE_EQ(simulate(orders, costs).duration, 8 * 9);  // the slower stage decides
  const SimulatedStep step = simulate(orders, costs, 2);
  // The work of both is 8 * 12; the second device begins after 3.
  EXPECT_GE(step.duration, (8 * 12 + 3) / 2.0);
  EXPECT_LE(step.duration, (8 * 12 + 3) / 2.0 + 3);
}

TEST(PipelineSchedule, WhatIsLeftAtTheEndIsComputedByAllDevices) {
  const StageOrders orders = stage_orders(PipelineSchedule::kGPipe, 2, 1);
  const std::vector<PassCosts> costs = {{.forward = 1, .backward = 1},
                                        {.forward = 1, .backward = 9, .weight_gradients = {4, 4}}};
  // F0 F1 B1 (1 of 9), then B0 beside both gradients: one on each device.
  EXPECT_DOUBLE_EQ(simulate(orders, costs, 1).duration, 1 + 1 + 1 + 1 + 4);
  EXPECT_DOUBLE_EQ(simulate(orders, costs).duration, 1 + 1 + 9 + 1);
}

TEST(PipelineSchedule, AStageDefersNoMoreThanItMayKeep) {
  // One device has nothing to wait for: all is as without, whatever is deferred.
  const auto alone = stage_orders(PipelineSchedule::k1F1B, 1, 4);
  EXPECT_DOUBLE_EQ(simulate(alone, {costs_with_weight(1)}, 2).duration, 4 * 3);
  // The first stage has all gradients of weights, which the second would compute in its waits.
  const auto orders = stage_orders(PipelineSchedule::k1F1B, 2, 16);
  const std::vector<PassCosts> costs = {{.forward = 1, .backward = 5, .weight_gradients = {4}},
                                        {.forward = 1, .backward = 1}};
  const double none = simulate(orders, costs).duration, one = simulate(orders, costs, 1).duration,
               many = simulate(orders, costs, 16).duration;
  EXPECT_LT(one, none);
  EXPECT_LE(many, one);
  EXPECT_GE(many, 16 * 8 / 2.0);
}

TEST(PipelineSchedule, RefusesWhatCannotBe) {
  EXPECT_THROW(stage_orders(PipelineSchedule::kGPipe, 0, 1), Error);
  EXPECT_THROW(stage_orders(PipelineSchedule::kGPipe, 1, 0), Error);
  EXPECT_THROW(simulate(stage_orders(PipelineSchedule::kGPipe, 2, 1), {{}}), Error);
  EXPECT_THROW(stage_orders(PipelineSchedule::k1F1B, 2, 2, 2), Error);
  EXPECT_THROW(stage_orders(PipelineSchedule::kInterleaved, 2, 2, 1), Error);
  const StageOrders circle = {{{PassDirection::kBackward, 0}, {PassDirection::kForward, 0}}};
  EXPECT_THROW(simulate(circle, {{}}), Error);
}

}  // namespace
}  // namespace brigade::concurrency
