#include "brigade/distribute/pipeline/layer_profiler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/testing/manual_clock.h"

namespace brigade::distribute {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Time passes only where a test says so: on a busy machine none of these is exact.
class Ticks {
 public:
  Ticks() { pass(1); }  // a profiler takes the clock's first moment for none
  void pass(std::int64_t ticks) const { clock_->advance(std::chrono::seconds(ticks)); }
  std::shared_ptr<LayerProfiler> profiler(
      int tasks, int devices = 1,
      LayerProfiler::Memory memory = LayerProfiler::Memory::kNotMeasured) const {
    return std::make_shared<LayerProfiler>(tasks, devices, memory, clock_);
  }

 private:
  const std::shared_ptr<base::ManualClock> clock_ = std::make_shared<base::ManualClock>();
};

/// Multiplies by a weight, and takes some time in each direction.
struct SlowProduct : torch::autograd::Function<SlowProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const Ticks* time, std::int64_t forward_ticks,
                            std::int64_t backward_ticks) {
    context->save_for_backward({x, weight});
    context->saved_data["time"] = reinterpret_cast<std::int64_t>(time);
    context->saved_data["ticks"] = backward_ticks;
    time->pass(forward_ticks);
    return x * weight;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto* time = reinterpret_cast<const Ticks*>(context->saved_data["time"].toInt());
    time->pass(context->saved_data["ticks"].toInt());
    return {gradients[0] * saved[1], gradients[0] * saved[0], {}, {}, {}};
  }
};

struct SlowLayer {
  std::string name;
  std::int64_t forward = 0, backward = 0;  // ticks
};

/// Passes of one task through such layers.
class SlowNet {
 public:
  SlowNet(const Ticks& time, std::vector<SlowLayer> layers)
      : time_(time), layers_(std::move(layers)) {
    for (const SlowLayer& each : layers_) {
      (void)each;
      weights_.push_back(at::ones({kSize}).requires_grad_());
    }
  }

  at::Tensor forward(LayerProfiler& profiler, int task, const at::Tensor& input) const {
    at::Tensor x = input;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      profiler.begin_layer(task, layers_[i].name, x);
      x = SlowProduct::apply(x, weights_[i], &time_, layers_[i].forward, layers_[i].backward);
    }
    return x.sum();
  }
  void train(LayerProfiler& profiler, int task, const at::Tensor& input) const {
    profiler.resume(task);
    const at::Tensor loss = forward(profiler, task, input);
    profiler.begin_backward(task);
    torch::autograd::grad({loss}, weights_);
    profiler.end_backward(task);
    profiler.pause(task);
    profiler.end(task);
  }

  static constexpr std::int64_t kSize = 1000;

 private:
  const Ticks& time_;
  const std::vector<SlowLayer> layers_;
  std::vector<at::Tensor> weights_;
};

TEST(LayerProfiler, WhatCouldBeLeftForLaterIsPartOfTheLayersBackwardPass) {
  const Ticks time;
  const auto profiler = time.profiler(1);
  const SlowNet net(time, {{"a", 0, 1}, {"b", 0, 1}});
  profiler->begin_step();
  profiler->resume(0);
  const at::Tensor loss = net.forward(*profiler, 0, at::ones({SlowNet::kSize}).requires_grad_());
  profiler->begin_backward(0);
  profiler->weight_gradient(0, [&] { time.pass(2); });  // of the last layer
  profiler->weight_gradient(0, [&] { time.pass(1); });
  loss.backward();
  profiler->end_backward(0);
  profiler->pause(0);
  profiler->end(0);
  profiler->end_step();
  const std::vector<LayerCost> costs = profiler->costs();
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_EQ(costs[0].weight_gradient_seconds, 0.0);
  EXPECT_EQ(costs[1].weight_gradient_seconds, 3);
  EXPECT_EQ(costs[1].backward_seconds, 3 + 1);
}

TEST(LayerProfiler, MeasuresEachLayerInBothDirections) {
  const Ticks time;
  const auto profiler = time.profiler(3);
  const SlowNet net(time, {{"a", 1, 2}, {"b", 3, 0}, {"c", 0, 4}});
  const at::Tensor input = at::ones({SlowNet::kSize});
  for (int step = 0; step < 3; ++step) {
    profiler->begin_step();
    for (int task = 0; task < 3; ++task) net.train(*profiler, task, input);
    profiler->end_step();
  }
  EXPECT_EQ(profiler->steps(), 3);
  const auto costs = profiler->costs();
  ASSERT_EQ(costs.size(), 3U);
  const std::vector<SlowLayer> expected = {{"a", 1, 2}, {"b", 3, 0}, {"c", 0, 4}};
  for (std::size_t i = 0; i < costs.size(); ++i) {
    EXPECT_EQ(costs[i].name, expected[i].name);
    EXPECT_EQ(costs[i].forward_seconds, expected[i].forward);
    EXPECT_EQ(costs[i].backward_seconds, expected[i].backward);
    EXPECT_EQ(costs[i].activation_bytes, 0);
  }
  EXPECT_EQ(profiler->seconds_besides(), 0);
}

TEST(LayerProfiler, NeitherWaitingNorWhatFollowsTheBackwardPassIsALayers) {
  const Ticks time;
  const auto profiler = time.profiler(1);
  const SlowNet net(time, {{"a", 0, 0}, {"b", 0, 0}});
  const at::Tensor input = at::ones({SlowNet::kSize});
  profiler->begin_step();
  profiler->resume(0);
  const at::Tensor loss = net.forward(*profiler, 0, input);
  profiler->pause(0);
  time.pass(3);
  profiler->resume(0);
  profiler->begin_backward(0);
  profiler->end_backward(0);
  time.pass(2);  // adds the gradients
  profiler->pause(0);
  time.pass(3);
  profiler->resume(0);
  time.pass(1);  // updates
  profiler->end(0);
  profiler->end_step();
  const auto costs = profiler->costs();
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_EQ(costs[0].backward_seconds, 0);
  EXPECT_EQ(costs[1].forward_seconds, 0);
  EXPECT_EQ(profiler->seconds_besides(), 2 + 3 + 1);  // without the wait in the model
}

TEST(LayerProfiler, DevicesAddGradientsBesidesUntilTheLastPassIsOverAndAllAfterThat) {
  const Ticks time;
  const auto profiler = time.profiler(2, /*devices=*/2);
  const SlowNet net(time, {{"a", 0, 0}});
  const at::Tensor input = at::ones({SlowNet::kSize});
  profiler->begin_step();
  for (const int task : {0, 1}) {
    profiler->resume(task);
    net.forward(*profiler, task, input);
    profiler->begin_backward(task);
  }
  profiler->end_backward(0);
  time.pass(1);  // adds
  profiler->pause(0);
  time.pass(2);  // waits, while the other one computes
  profiler->end_backward(1);
  time.pass(1);  // both update
  for (const int task : {0, 1}) profiler->end(task);
  profiler->end_step();
  EXPECT_EQ(profiler->seconds_besides(), 1 + 2 * 1);
}

TEST(LayerProfiler, TheFirstOfSeveralStepsDoesNotCount) {
  const Ticks time;
  const auto profiler = time.profiler(1);
  const at::Tensor input = at::ones({SlowNet::kSize});
  const auto step = [&](std::int64_t ticks) {
    profiler->begin_step();
    SlowNet(time, {{"a", ticks, 0}}).train(*profiler, 0, input);
    profiler->end_step();
  };
  step(5);
  EXPECT_EQ(profiler->costs()[0].forward_seconds, 5);
  step(1);
  EXPECT_EQ(profiler->costs()[0].forward_seconds, 1);
}

TEST(LayerProfiler, StepsWithoutBackwardAndFailedOnesDoNotCount) {
  const Ticks time;
  const auto profiler = time.profiler(1);
  const SlowNet net(time, {{"a", 0, 0}, {"b", 0, 0}});
  const at::Tensor input = at::ones({SlowNet::kSize});
  profiler->begin_step();
  {
    const at::NoGradGuard no_grad;
    profiler->resume(0);
    net.forward(*profiler, 0, input);
    profiler->end(0);
  }
  profiler->end_step();
  profiler->begin_step();
  net.train(*profiler, 0, input);
  profiler->fail();
  profiler->end_step();
  profiler->end_step();  // no step has begun
  EXPECT_EQ(profiler->steps(), 0);
  EXPECT_TRUE(profiler->costs().empty());
  profiler->begin_step();
  net.train(*profiler, 0, input);
  EXPECT_EQ(profiler->layers(0), (std::vector<std::string>{"a", "b"}));
  profiler->end_step();
  EXPECT_EQ(profiler->steps(), 1);
}

TEST(LayerProfiler, MeasuresWhatLayersKeepAndTheirVariables) {
  const Ticks time;
  const auto profiler = time.profiler(1, /*devices=*/1, LayerProfiler::Memory::kMeasured);
  const SlowNet net(time, {{"a", 0, 0}, {"b", 0, 0}});
  const at::Tensor input = at::ones({SlowNet::kSize});
  profiler->begin_step();
  net.train(*profiler, 0, input);
  profiler->end_step();
  const auto costs = profiler->costs();
  constexpr std::int64_t kBytes = 4 * SlowNet::kSize;
  EXPECT_EQ(costs[0].variable_bytes, kBytes);
  EXPECT_EQ(costs[1].variable_bytes, 0);  // known by what all variables have
  EXPECT_GE(costs[0].activation_bytes, kBytes);
  EXPECT_LT(costs[0].activation_bytes, kBytes + 500);
}

}  // namespace
}  // namespace brigade::distribute
