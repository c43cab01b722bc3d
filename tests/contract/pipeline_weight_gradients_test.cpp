// Gradients of weights that the backward passes of a pipeline leave to idle stages: the bits of one
// device, and nothing that stays behind.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/labeled_example.h"
#include "brigade/layers/deferred_convolution.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/fused_pooling.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/recompute.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::distribute {
namespace {

using comm::begin_layer;
using concurrency::StageWork;
using Conv2dModule = torch::nn::Conv2d;

constexpr int kDeferringMicroBatches = 4;
constexpr std::int64_t kExamplesOfAll = 30;  // uneven micro-batches

at::Tensor convolved(const at::Tensor& x, const Conv2dModule& conv) {
  return layers::deferrable_conv2d(x, conv->weight, conv->bias, {1, 1}, {1, 1}, {1, 1}, 1);
}

/// Convolutions and dense layers that may leave their weights' gradients for later, with dropout
/// and batch normalization.
struct DeferringNet : torch::nn::Module {
  DeferringNet() {
    fused = register_module("fused", Conv2dModule(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
    conv = register_module("conv", Conv2dModule(torch::nn::Conv2dOptions(8, 16, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(16));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    dense = register_module("dense", torch::nn::Linear(16 * 14 * 14, 48));
    last = register_module("last", torch::nn::Linear(48, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("fused", images);
    x = layers::conv_pool_relu(x, fused->weight, fused->bias);
    x = convolved(begin_layer("conv", x), conv);
    x = norm(begin_layer("norm", x)).relu();
    x = dropout(begin_layer("dense", x).flatten(1));
    x = layers::dense_product(x, dense->weight, dense->bias).relu();
    return layers::dense_product(begin_layer("last", x), last->weight, last->bias);
  }
  Conv2dModule fused{nullptr}, conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear dense{nullptr}, last{nullptr};
};

/// Dense layers alone.
struct DeferringMlp : torch::nn::Module {
  DeferringMlp() {
    first = register_module("first", torch::nn::Linear(784, 96));
    second = register_module("second", torch::nn::Linear(96, 640));
    third = register_module("third", torch::nn::Linear(640, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("fused", images).flatten(1);
    x = layers::dense_product(x, first->weight, first->bias).tanh();
    x = layers::dense_product(begin_layer("conv", x), second->weight, second->bias).relu();
    return layers::dense_product(begin_layer("dense", x), third->weight, third->bias);
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};

/// A weight that three layers of two stages use, one of them outside of what can be deferred, and
/// layers that are computed again.
struct TiedNet : torch::nn::Module {
  TiedNet() {
    fused = register_module("fused", Conv2dModule(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
    tied = register_module("tied", Conv2dModule(torch::nn::Conv2dOptions(8, 8, 3).padding(1)));
    again = register_module("again", Conv2dModule(torch::nn::Conv2dOptions(8, 8, 3).padding(1)));
    last = register_module("last", torch::nn::Linear(8 * 14 * 14, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("fused", images);
    x = layers::conv_pool_relu(x, fused->weight, fused->bias);
    x = convolved(x, tied).tanh();
    x = convolved(begin_layer("conv", x), tied).tanh();
    x = tied(x).tanh();
    const auto twice = [this](const at::Tensor& y) {
      return convolved(convolved(y, again).tanh(), again);
    };
    x = layers::recompute(twice, begin_layer("dense", x)).relu();
    return layers::dense_product(x.flatten(1), last->weight, last->bias);
  }
  Conv2dModule fused{nullptr}, tied{nullptr}, again{nullptr};
  torch::nn::Linear last{nullptr};
};

input::LabeledBatch batch_of_all() {
  return {at::arange(kExamplesOfAll * 784, at::kFloat).view({kExamplesOfAll, 1, 28, 28}).sin(),
          at::arange(kExamplesOfAll, at::kLong).remainder(10)};
}

PipelineStrategyOptions deferring_pipeline(std::vector<std::string> cut,
                                           PipelineSchedule schedule = PipelineSchedule::k1F1B) {
  return {.cut = std::move(cut),
          .micro_batches = kDeferringMicroBatches,
          .schedule = schedule,
          .allow_oversubscription = true,
          .seed = 7,
          .timeout = std::chrono::seconds(60)};
}

OneDeviceStrategy logical_one_device() {
  return OneDeviceStrategy(
      OneDeviceOptions{.device = "cpu:0", .logical_replicas = kDeferringMicroBatches, .seed = 7});
}

enum class HowToUpdate { kMinimize, kClipped, kAccumulated };

/// All values after a few steps.
template <class Net>
std::vector<at::Tensor> values_after_training(Strategy& strategy, HowToUpdate training) {
  const auto model = strategy.create<Net>();
  const auto adam =
      strategy.optimizer(model, optim::Adam{.learning_rate = 0.01},
                         {.accumulate = training == HowToUpdate::kAccumulated ? 2 : 1});
  for (int i = 0; i < 4; ++i) {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          const at::Tensor loss =
              layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
          if (training != HowToUpdate::kClipped) {
            adam.minimize(loss);
            return;
          }
          Gradients sums = adam.aggregate(adam.compute_gradients(loss));
          optim::clip_by_global_norm_(sums, 0.5);
          adam.apply_gradients(sums);
        },
        strategy.split_batch(batch_of_all()));
  }
  std::vector<at::Tensor> values;
  for (const variables::Variable& variable : model.variables())
    values.push_back(variable.read().clone());
  return values;
}

int spans_of_stage(const PipelineStrategy& pipe, std::size_t stage, StageWork work) {
  return static_cast<int>(
      std::ranges::count(pipe.timeline().stages[stage], work, &concurrency::StageSpan::work));
}

int weight_gradients_of(const PipelineStrategy& pipe) {
  int count = 0;
  for (std::size_t stage = 0; stage < pipe.timeline().stages.size(); ++stage)
    count += spans_of_stage(pipe, stage, StageWork::kWeightGradient);
  return count;
}

void expect_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(at::equal(got[i], expected[i])) << i;
}

template <class Net>
void expect_bits_in_all_pipelines(HowToUpdate training) {
  OneDeviceStrategy one = logical_one_device();
  const auto expected = values_after_training<Net>(one, training);
  for (const auto& cut : std::vector<std::vector<std::string>>{{"dense"}, {"conv", "dense"}}) {
    for (const auto schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kGPipe}) {
      SCOPED_TRACE(std::to_string(cut.size() + 1) + std::string(to_string(schedule)));
      PipelineStrategy pipe(deferring_pipeline(cut, schedule));
      expect_bits(values_after_training<Net>(pipe, training), expected);
      EXPECT_GT(weight_gradients_of(pipe), 0);
      EXPECT_EQ(pipe.passes(),
                concurrency::stage_orders(schedule, pipe.num_stages(), kDeferringMicroBatches));
      for (int stage = 0; stage < pipe.num_stages(); ++stage) {
        const int own = schedule == PipelineSchedule::kGPipe ? kDeferringMicroBatches
                                                             : pipe.num_stages() - stage;
        EXPECT_LE(pipe.peak_micro_batches()[static_cast<std::size_t>(stage)],
                  std::min(own + 2, kDeferringMicroBatches));
      }
    }
  }
}

TEST(PipelineWeightGradients, HaveTheBitsOfOneDevice) {
  expect_bits_in_all_pipelines<DeferringNet>(HowToUpdate::kMinimize);
  expect_bits_in_all_pipelines<DeferringNet>(HowToUpdate::kClipped);
  expect_bits_in_all_pipelines<DeferringNet>(HowToUpdate::kAccumulated);
}

TEST(PipelineWeightGradients, OfAnMlpHaveTheBitsOfOneDevice) {
  expect_bits_in_all_pipelines<DeferringMlp>(HowToUpdate::kMinimize);
}

TEST(PipelineWeightGradients, WeightsUsedTwiceAndRecomputedLayersHaveTheBitsOfOneDevice) {
  expect_bits_in_all_pipelines<TiedNet>(HowToUpdate::kMinimize);
}

TEST(PipelineWeightGradients, OfInterleavedStagesHaveTheBitsOfOneDevice) {
  OneDeviceStrategy one = logical_one_device();
  PipelineStrategyOptions options =
      deferring_pipeline({"conv", "norm", "dense"}, PipelineSchedule::kInterleaved);
  options.chunks_per_device = 2;
  PipelineStrategy pipe(options);
  expect_bits(values_after_training<DeferringNet>(pipe, HowToUpdate::kMinimize),
              values_after_training<DeferringNet>(one, HowToUpdate::kMinimize));
  EXPECT_GT(weight_gradients_of(pipe), 0);
}

TEST(PipelineWeightGradients, AreComputedByTheStageThatIsIdle) {
  PipelineStrategy pipe(deferring_pipeline({"dense"}));
  values_after_training<DeferringNet>(pipe, HowToUpdate::kMinimize);
  // When the first stage leaves those of its last pass, the second has no pass any more.
  EXPECT_GT(spans_of_stage(pipe, 1, StageWork::kWeightGradient), 0) << pipe.timeline().text();
}

TEST(PipelineWeightGradients, InBackwardAreNoWorkOfTheirOwn) {
  OneDeviceStrategy one = logical_one_device();
  PipelineStrategyOptions options = deferring_pipeline({"dense"});
  options.weight_gradients = WeightGradients::kInBackward;
  PipelineStrategy pipe(options);
  expect_bits(values_after_training<DeferringNet>(pipe, HowToUpdate::kMinimize),
              values_after_training<DeferringNet>(one, HowToUpdate::kMinimize));
  EXPECT_EQ(weight_gradients_of(pipe), 0);
  EXPECT_EQ(pipe.peak_micro_batches(), (std::vector<int>{2, 1}));
}

TEST(PipelineWeightGradients, AnAutomaticCutKnowsThem) {
  PipelineStrategyOptions options = deferring_pipeline({});
  options.devices = {"cpu:0", "cpu:1"};
  options.cut = AutomaticCut{.profile_steps = 2};
  PipelineStrategy pipe(options);
  OneDeviceStrategy one = logical_one_device();
  expect_bits(values_after_training<DeferringNet>(pipe, HowToUpdate::kMinimize),
              values_after_training<DeferringNet>(one, HowToUpdate::kMinimize));
  ASSERT_TRUE(pipe.chosen_cut());
  for (const LayerCost& layer : pipe.chosen_cut()->layer_costs) {
    EXPECT_LE(layer.weight_gradient_seconds, layer.backward_seconds) << layer.name;
    if (layer.name == "conv") EXPECT_GT(layer.weight_gradient_seconds, 0.0);
    if (layer.name == "norm") EXPECT_EQ(layer.weight_gradient_seconds, 0.0);
  }
  EXPECT_GT(weight_gradients_of(pipe), 0);
}

TEST(PipelineWeightGradients, AHookOfAWeightSeesEachGradient) {
  PipelineStrategy pipe(deferring_pipeline({"dense"}));
  OneDeviceStrategy one = logical_one_device();
  std::vector<std::vector<at::Tensor>> values;
  for (Strategy* strategy : {static_cast<Strategy*>(&pipe), static_cast<Strategy*>(&one)}) {
    const auto model = strategy->create<DeferringNet>();
    const auto sgd = strategy->optimizer(model, optim::Sgd{.learning_rate = 0.1});
    std::atomic<int> calls = 0;
    for (const variables::Variable& variable : model.variables()) {
      if (variable.name().find("conv") == std::string::npos || !variable.trainable()) continue;
      for (int replica = 0; replica < variable.num_components(); ++replica) {
        variable.component(replica).register_hook([&](const at::Tensor& gradient) {
          ++calls;
          return gradient * 2;
        });
      }
    }
    strategy->run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(
              layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        strategy->split_batch(batch_of_all()));
    EXPECT_EQ(calls, 2 * kDeferringMicroBatches);  // weight and bias
    auto& of_strategy = values.emplace_back();
    for (const variables::Variable& variable : model.variables())
      of_strategy.push_back(variable.read().clone());
  }
  expect_bits(values[0], values[1]);
}

std::atomic<bool> product_is_broken = false;
std::weak_ptr<const int> last_product;  // for one micro-batch

/// Multiplies by a weight, whose gradient may throw when it is computed later.
struct BrokenProduct : torch::autograd::Function<BrokenProduct> {
  class Later final : public variables::DeferredGradient {
   public:
    Later(const at::Tensor& weight, at::Tensor gradient, std::shared_ptr<const int> held)
        : DeferredGradient(weight), gradient_(std::move(gradient)), held_(std::move(held)) {}
    std::int64_t bytes() const override { return 1 << 20; }
    at::Tensor compute() const override {
      if (*held_ == 2 && product_is_broken) throw Error(ErrorCode::kDataLoss, "a broken product");
      return gradient_;
    }

   private:
    const at::Tensor gradient_;
    const std::shared_ptr<const int> held_;
  };

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, std::int64_t replica) {
    context->save_for_backward({x, weight});
    context->saved_data["replica"] = replica;
    return x * weight;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto replica = static_cast<int>(context->saved_data["replica"].toInt());
    const at::Tensor of_weight = (gradients[0] * saved[0]).sum_to_size(saved[1].sizes());
    auto* deferral = variables::gradient_deferral(saved[1], 1 << 20);
    if (deferral == nullptr) return {gradients[0] * saved[1], of_weight, {}};
    const auto held = std::make_shared<const int>(replica);
    if (replica == 2) last_product = held;
    deferral->take(std::make_shared<const Later>(saved[1], of_weight, held));
    return {gradients[0] * saved[1], at::Tensor(), {}};
  }
};

struct BrokenNet : torch::nn::Module {
  BrokenNet() {
    weight = register_parameter("weight", at::ones({784}));
    last = register_module("last", torch::nn::Linear(784, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images).flatten(1);
    x = BrokenProduct::apply(x, weight, current_replica_context()->replica_id());
    return last(begin_layer("last", x));
  }
  at::Tensor weight;
  torch::nn::Linear last{nullptr};
};

TEST(PipelineWeightGradients, OneThatThrowsEndsTheStepAndNothingStaysBehind) {
  PipelineStrategy pipe(deferring_pipeline({"last"}));
  const auto model = pipe.create<BrokenNet>();
  const auto sgd = pipe.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto step = [&] {
    pipe.run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(
              layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        pipe.split_batch(batch_of_all()));
  };
  step();
  std::vector<at::Tensor> before;
  for (const variables::Variable& variable : model.variables())
    before.push_back(variable.read().clone());
  product_is_broken = true;
  for (int i = 0; i < 5; ++i) {
    const Error error = error_from(step);
    EXPECT_TRUE(mentions(error, "Replica 2 (")) << error.what();
    EXPECT_TRUE(mentions(error, "a broken product")) << error.what();
    EXPECT_TRUE(last_product.expired());
    for (std::size_t k = 0; k < before.size(); ++k)
      EXPECT_TRUE(at::equal(model.variables()[k].read(), before[k]));
  }
  product_is_broken = false;
  step();
  EXPECT_FALSE(at::equal(model.variables()[0].read(), before[0]));
  EXPECT_EQ(pipe.passes(),
            concurrency::stage_orders(PipelineSchedule::k1F1B, 2, kDeferringMicroBatches));
}

}  // namespace
}  // namespace brigade::distribute
