#include "brigade/distribute/strategies/pipeline_strategy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/device/device_scope.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/layer_value.h"

namespace brigade::distribute {
namespace {

using comm::begin_layer;

constexpr int kExamples = 60;
constexpr int kBatch = 20;
constexpr std::uint64_t kSeed = 5;

/// Layers of which each may begin a stage.
struct FourLayers : torch::nn::Module {
  FourLayers() {
    first = register_module("first", torch::nn::Linear(64, 12));
    second = register_module("second", torch::nn::Linear(12, 10));
    third = register_module("third", torch::nn::Linear(10, 12));
    last = register_module("last", torch::nn::Linear(12, 4));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr}, last{nullptr};
};

/// Uses its first weight in two layers.
struct DeepNet : FourLayers {
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images.flatten(1));
    x = begin_layer("second", first(x).tanh_());
    x = begin_layer("third", second(x));
    x = third(x.relu_());  // changes what crosses the boundary in place
    x = at::linear(x, first->weight.t()).narrow(1, 0, 12) + x;  // a tied weight
    return last(begin_layer("last", x));
  }
};

/// Dropout and batch normalization: random numbers and statistics of each micro-batch.
struct ConvNet : torch::nn::Module {
  ConvNet() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 5, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(5));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    dense = register_module("dense", torch::nn::Linear(5 * 6 * 6, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = conv(begin_layer("first", images));
    x = norm(begin_layer("second", x)).relu();
    x = dropout(begin_layer("third", x).flatten(1));
    return dense(begin_layer("last", x));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear dense{nullptr};
};

PipelineStrategyOptions pipe(int stages, int micro_batches,
                             PipelineSchedule schedule = PipelineSchedule::k1F1B) {
  PipelineStrategyOptions options{.micro_batches = micro_batches,
                                  .schedule = schedule,
                                  .allow_oversubscription = true,
                                  .seed = kSeed,
                                  .timeout = std::chrono::seconds(60)};
  const std::vector<std::vector<std::string>> cuts = {
      {}, {"third"}, {"second", "last"}, {"second", "third", "last"}};
  options.cut = cuts[static_cast<std::size_t>(stages) - 1];
  return options;
}

OneDeviceOptions one_device(int logical_replicas) {
  return {.device = "cpu:0", .logical_replicas = logical_replicas, .seed = kSeed};
}

at::Tensor mean_loss(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels);
}

auto examples() {
  const at::Tensor images = at::arange(kExamples * 64, at::kFloat).view({kExamples, 1, 8, 8}).sin();
  const at::Tensor labels = at::arange(kExamples, at::kLong).remainder(4);
  return input::from_tensor_slices(images, labels);
}

enum class Update { kMomentum, kAdamWithClipping, kAdam, kAccumulated, kPenalized };

/// The penalty of all weights that the calling replica has.
at::Tensor sum_of_squares(std::span<const variables::Variable> variables) {
  at::Tensor sum = at::zeros({});
  for (const variables::Variable& variable : variables)
    if (variable.trainable()) sum = sum + variable.local().square().sum();
  return sum;
}

/// Trains, evaluates, trains on: [losses, outputs of the evaluation, values with statistics].
/// `make(strategy)` makes the model.
template <class AnyStrategy, class Make>
std::vector<at::Tensor> train_made(AnyStrategy& strategy, const Make& make, Update update) {
  const auto data = examples().shuffle(kExamples).batch(kBatch - 3);  // the last batch has 9
  const auto model = make(strategy);
  const auto optimizer =
      update == Update::kAdamWithClipping || update == Update::kAdam
          ? strategy.optimizer(model, optim::Adam{.learning_rate = 0.01})
          : strategy.optimizer(model, optim::Sgd{.learning_rate = 0.05, .momentum = 0.9},
                               {.accumulate = update == Update::kAccumulated ? 3 : 1});
  std::vector<at::Tensor> results;
  const auto step = [&](const input::LabeledBatch& local) {
    at::Tensor loss = mean_loss(model(local.features), local.labels);
    if (update == Update::kPenalized) loss = loss + 0.02 * sum_of_squares(model.variables());
    if (update != Update::kAdamWithClipping) {
      optimizer.minimize(loss);
    } else {
      Gradients sums = optimizer.aggregate(optimizer.compute_gradients(loss));
      optim::clip_by_global_norm_(sums, 0.5);
      optimizer.apply_gradients(sums);
    }
    return loss.detach().view({1});
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : strategy.distribute(data)) {
      results.push_back(strategy.gather(strategy.run(step, batch), 0));
    }
    if (update == Update::kAccumulated) optimizer.flush();
    model.eval();
    for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
      const at::NoGradGuard no_grad;
      const auto outputs = strategy.run(
          [&](const input::LabeledBatch& local) { return model(local.features); }, batch);
      results.push_back(strategy.gather(outputs, 0));
    }
    model.train();
  }
  strategy.fetch_state();
  for (const variables::Variable& variable : model.variables()) results.push_back(variable.read());
  return results;
}

template <class Net>
std::vector<at::Tensor> train(Strategy& strategy, Update update) {
  return train_made(
      strategy, [](Strategy& each) { return each.create<Net>(); }, update);
}

/// NaN where an empty micro-batch has no mean loss.
bool are_equal(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.nan_to_num(), b.nan_to_num());
}

template <class Net>
void expect_bits_of_one_device(Strategy& strategy, int micro_batches, Update update) {
  OneDeviceStrategy one(one_device(micro_batches));
  const auto expected = train<Net>(one, update);
  const auto ours = train<Net>(strategy, update);
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(are_equal(ours[i], expected[i])) << i;
}

class Pipelines : public ::testing::TestWithParam<PipelineSchedule> {};

TEST_P(Pipelines, HaveTheBitsOfOneDeviceWithAsManyLogicalReplicas) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int micro_batches : {1, 5}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(micro_batches));
      PipelineStrategy deep(pipe(stages, micro_batches, GetParam()));
      expect_bits_of_one_device<DeepNet>(deep, micro_batches, Update::kMomentum);
    }
    PipelineStrategy conv(pipe(stages, 4, GetParam()));
    expect_bits_of_one_device<ConvNet>(conv, 4, Update::kAdamWithClipping);
  }
}

TEST_P(Pipelines, SomeMicroBatchesMayBeEmpty) {
  PipelineStrategy strategy(pipe(3, 12, GetParam()));  // the batch of 9 has 3 empty ones
  expect_bits_of_one_device<DeepNet>(strategy, 12, Update::kMomentum);
}

TEST_P(Pipelines, AStepMakesThePassesOfItsScheduleAndKeepsNoMoreActivations) {
  constexpr int kMicroBatches = 6;
  for (const int stages : {2, 3, 4}) {
    PipelineStrategy strategy(pipe(stages, kMicroBatches, GetParam()));
    const auto model = strategy.create<DeepNet>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
    for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
      strategy.run(
          [&](const input::LabeledBatch& local) {
            sgd.minimize(mean_loss(model(local.features), local.labels));
          },
          batch);
      EXPECT_EQ(strategy.passes(), concurrency::stage_orders(GetParam(), stages, kMicroBatches));
      for (int stage = 0; stage < stages; ++stage) {
        const bool is_gpipe = GetParam() == PipelineSchedule::kGPipe;
        EXPECT_EQ(strategy.peak_micro_batches()[static_cast<std::size_t>(stage)],
                  is_gpipe ? kMicroBatches : stages - stage);
      }
    }
  }
}

TEST_P(Pipelines, AStageThatThrowsEndsTheStepWithItsErrorAndTheNextStepWorks) {
  PipelineStrategy strategy(pipe(3, 6, GetParam()));
  const auto model = strategy.create<DeepNet>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  std::vector<at::Tensor> before;
  for (const variables::Variable& variable : model.variables())
    before.push_back(variable.read().clone());
  for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
    for (const bool in_backward : {false, true}) {
      const auto broken = [&](ReplicaContext& context, const input::LabeledBatch& local) {
        at::Tensor loss = mean_loss(model(local.features), local.labels);
        if (context.replica_id() == 2) {
          if (!in_backward) throw std::runtime_error("the second stage is broken");
          loss.register_hook([](const at::Tensor&) -> at::Tensor {
            throw std::runtime_error("the second stage is broken");
          });
        }
        sgd.minimize(loss);
      };
      const Error error = error_from([&] { strategy.run(broken, batch); });
      EXPECT_TRUE(mentions(error, "Replica 2 (")) << error.what();
      EXPECT_TRUE(mentions(error, "the second stage is broken")) << error.what();
      for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_TRUE(at::equal(model.variables()[i].read(), before[i]));
    }
  }
  for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(mean_loss(model(local.features), local.labels));
        },
        batch);
    EXPECT_EQ(strategy.passes(), concurrency::stage_orders(GetParam(), 3, 6));
  }
  EXPECT_FALSE(at::equal(model.variables()[0].read(), before[0]));
}

TEST_P(Pipelines, MicroBatchesMayWaitForOneAnotherWithinTheModel) {
  PipelineStrategy strategy(pipe(2, 4, GetParam()));
  OneDeviceStrategy one(one_device(4));
  std::vector<std::vector<at::Tensor>> results;
  for (Strategy* each : {static_cast<Strategy*>(&strategy), static_cast<Strategy*>(&one)}) {
    const auto model = each->create<DeepNet>();
    const auto sgd = each->optimizer(model, optim::Sgd{.learning_rate = 0.1});
    for (const auto& batch : each->distribute(examples().batch(kBatch))) {
      each->run(
          [&](ReplicaContext& context, const input::LabeledBatch& local) {
            at::Tensor x = model(local.features);
            x = x - context.all_reduce(comm::ReduceOp::kMean, x.mean(0));
            sgd.minimize(mean_loss(x, local.labels));
          },
          batch);
    }
    auto& values = results.emplace_back();
    for (const variables::Variable& variable : model.variables()) values.push_back(variable.read());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(at::equal(results[0][i], results[1][i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipelines,
                         ::testing::Values(PipelineSchedule::kGPipe, PipelineSchedule::k1F1B),
                         [](const auto& instance) {
                           return instance.param == PipelineSchedule::kGPipe
                                      ? "GPipe"
                                      : "OneForwardOneBackward";
                         });

/// The error of a first step of the model that `make` makes.
template <class Make>
Error error_of_a_step_with(const Make& make, const PipelineStrategyOptions& options) {
  PipelineStrategy strategy(options);
  const auto model = make(strategy);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
  return error_from([&] {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(mean_loss(model(local.features), local.labels));
        },
        batch);
  });
}

template <class Net>
Error error_of_a_step(const PipelineStrategyOptions& options) {
  return error_of_a_step_with([](Strategy& strategy) { return strategy.create<Net>(); }, options);
}

PipelineStrategyOptions interleaved_pipe(std::vector<std::string> cut, int chunks) {
  PipelineStrategyOptions options = pipe(1, 6, PipelineSchedule::kInterleaved);
  options.cut = std::move(cut);
  options.chunks_per_device = chunks;
  return options;
}

TEST(InterleavedPipeline, HasTheBitsOfOneDeviceWithAsManyLogicalReplicas) {
  {
    PipelineStrategy strategy(interleaved_pipe({"second", "third", "last"}, 2));
    EXPECT_EQ(strategy.num_stages(), 4);
    EXPECT_EQ(strategy.stage_devices()[0].name, strategy.stage_devices()[2].name);
    EXPECT_NE(strategy.stage_devices()[0].name, strategy.stage_devices()[1].name);
    expect_bits_of_one_device<DeepNet>(strategy, 6, Update::kAdamWithClipping);
  }
  PipelineStrategy strategy(interleaved_pipe({"second", "third", "last"}, 2));
  expect_bits_of_one_device<ConvNet>(strategy, 6, Update::kMomentum);
}

TEST(InterleavedPipeline, AStepMakesThePassesOfItsSchedule) {
  PipelineStrategy strategy(interleaved_pipe({"second", "third", "last"}, 2));
  const auto model = strategy.create<DeepNet>();
  const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          optimizer.minimize(mean_loss(model(local.features), local.labels));
        },
        batch);
    EXPECT_EQ(strategy.passes(),
              concurrency::stage_orders(PipelineSchedule::kInterleaved, 2, 6, 2));
    EXPECT_EQ(strategy.timeline().stages.size(), 2u);
    EXPECT_LE(strategy.peak_micro_batches()[0], 2 + 2 + 1);
  }
}

TEST(InterleavedPipeline, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(error_from([] { PipelineStrategy(interleaved_pipe({"second"}, 1)); }).code(),
            ErrorCode::kInvalidArgument);
  PipelineStrategyOptions options = pipe(2, 4);
  options.chunks_per_device = 2;
  EXPECT_EQ(error_from([&] { PipelineStrategy{options}; }).code(), ErrorCode::kInvalidArgument);
  PipelineStrategyOptions few = interleaved_pipe({"second", "third"}, 2);
  few.devices = {"cpu:0", "cpu:1"};
  const Error error = error_from([&] { PipelineStrategy{few}; });
  EXPECT_TRUE(mentions(error, "2 devices with 2 stages each is cut at 2 layers")) << error.what();
  PipelineStrategyOptions automatic = interleaved_pipe({}, 2);
  automatic.devices = {"cpu:0", "cpu:1"};
  automatic.cut = AutomaticCut{};
  EXPECT_EQ(error_from([&] { PipelineStrategy{automatic}; }).code(), ErrorCode::kUnimplemented);
}

TEST(PipelineStrategy, TheTimelineHasThePassesOfTheLastStep) {
  PipelineStrategy strategy(pipe(2, 4));
  const auto model = strategy.create<DeepNet>();
  const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  EXPECT_EQ(strategy.timeline().duration().count(), 0);
  for (const auto& batch : strategy.distribute(examples().batch(kBatch).take(2))) {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          optimizer.minimize(mean_loss(model(local.features), local.labels));
        },
        batch);
    const concurrency::StageTimeline timeline = strategy.timeline();
    ASSERT_EQ(timeline.stages.size(), 2u);
    for (std::size_t stage = 0; stage < 2; ++stage) {
      std::vector<concurrency::StagePass> passes;
      const auto& spans = timeline.stages[stage];
      for (std::size_t i = 0; i < spans.size(); ++i) {
        EXPECT_LE(spans[i].begin, spans[i].end);
        if (i > 0) EXPECT_LE(spans[i - 1].end, spans[i].begin);
        if (spans[i].work == concurrency::StageWork::kOther) continue;
        passes.push_back({.direction = spans[i].work == concurrency::StageWork::kForward
                                           ? concurrency::PassDirection::kForward
                                           : concurrency::PassDirection::kBackward,
                          .micro_batch = spans[i].micro_batch});
      }
      EXPECT_EQ(passes, strategy.passes()[stage]);
    }
    EXPECT_GT(timeline.bubble(), 0.0);
    EXPECT_LT(timeline.bubble(), 1.0);
  }
}

/// Two layers; the second one of micro-batch 0 and the first one of micro-batch 1 wait for each
/// other, which ends only if both stages compute at the same time.
struct MutualWaitNet : torch::nn::Module {
  /// Of the modules of all micro-batches.
  struct Counters {
    std::atomic<int> computing = 0, met = 0;
  };
  explicit MutualWaitNet(std::shared_ptr<Counters> of_all) : counters(std::move(of_all)) {
    first = register_module("first", torch::nn::Linear(64, 4));
    second = register_module("second", torch::nn::Linear(4, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    const int micro_batch = current_replica_context()->replica_id();
    at::Tensor x = begin_layer("first", images.flatten(1));
    if (micro_batch == 1) wait_for_other();
    x = begin_layer("second", first(x));
    if (micro_batch == 0) wait_for_other();
    return second(x);
  }
  void wait_for_other() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    ++counters->computing;
    while (counters->computing < 2 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    if (counters->computing == 2) ++counters->met;
  }
  const std::shared_ptr<Counters> counters;
  torch::nn::Linear first{nullptr}, second{nullptr};
};

TEST(PipelineStrategy, StagesComputeAtTheSameTime) {
  PipelineStrategyOptions options = pipe(2, 4);
  options.cut = std::vector<std::string>{"second"};
  PipelineStrategy strategy(options);
  const auto counters = std::make_shared<MutualWaitNet::Counters>();
  const auto model = strategy.create([&] { return std::make_shared<MutualWaitNet>(counters); });
  strategy.run([&] { return model(at::arange(64, at::kFloat).view({1, 1, 8, 8})); });
  EXPECT_EQ(counters->met, 2);
}

TEST(PipelineStrategy, WaitingForAStageIsNotCountedAsCompute) {
  PipelineStrategy strategy(pipe(2, 2));
  const auto model = strategy.create<DeepNet>();
  const at::Tensor images = at::arange(64, at::kFloat).view({1, 1, 8, 8});
  constexpr std::chrono::milliseconds kSlow{500};
  strategy.measure_steps(StepMeasuring::kOn);
  strategy.run([&](const ReplicaContext& context) {
    const at::Tensor result = model(images);  // micro-batch 1 waits here for the second stage
    if (context.replica_id() == 0) std::this_thread::sleep_for(kSlow);
  });
  EXPECT_GE(strategy.step_times().back().spent(comm::StepPhase::kWait), kSlow / 10);
}

TEST(PipelineCut, AnUnknownLayerIsRefusedWithTheNearestName) {
  PipelineStrategyOptions options = pipe(3, 4);
  options.cut = {"second", "thirds"};
  const Error error = error_of_a_step<DeepNet>(options);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "The pipeline has 3 stages")) << error.what();
  EXPECT_TRUE(mentions(error, "did you mean 'third'?")) << error.what();
  EXPECT_TRUE(mentions(error, "first, second, third, last")) << error.what();
}

TEST(PipelineCut, TheFirstLayerAndAnotherOrderAreRefused) {
  PipelineStrategyOptions options = pipe(3, 4);
  options.cut = {"first", "third"};
  const Error first = error_of_a_step<DeepNet>(options);
  EXPECT_TRUE(mentions(first, "the first stage would have no layer")) << first.what();
  options.cut = {"last", "second"};
  const Error order = error_of_a_step<DeepNet>(options);
  EXPECT_EQ(order.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(order, "in the order of the model")) << order.what();
}

/// A model that announces no layers.
struct PlainNet : torch::nn::Module {
  PlainNet() { dense = register_module("dense", torch::nn::Linear(64, 4)); }
  at::Tensor forward(const at::Tensor& images) { return dense(images.flatten(1)); }
  torch::nn::Linear dense{nullptr};
};

TEST(PipelineCut, AModelWithoutNamedLayersIsRefused) {
  const Error error = error_of_a_step<PlainNet>(pipe(2, 4));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "begin_layer")) << error.what();
}

PipelineStrategyOptions automatic(int stages, int micro_batches, const AutomaticCut& cut = {}) {
  PipelineStrategyOptions options = pipe(1, micro_batches);
  for (int stage = 0; stage < stages; ++stage)
    options.devices.push_back("cpu:" + std::to_string(stage));
  options.cut = cut;
  return options;
}

TEST_P(Pipelines, ThatChooseTheirCutHaveTheBitsOfOneDevice) {
  for (const int stages : {1, 2, 3, 4}) {
    SCOPED_TRACE(stages);
    PipelineStrategyOptions options = automatic(stages, 5);
    options.schedule = GetParam();
    PipelineStrategy deep(options);
    EXPECT_TRUE(deep.cut().empty());
    expect_bits_of_one_device<DeepNet>(deep, 5, Update::kMomentum);
    EXPECT_EQ(deep.cut().size(), static_cast<std::size_t>(stages) - 1);
    PipelineStrategy conv(options);
    expect_bits_of_one_device<ConvNet>(conv, 5, Update::kAdamWithClipping);
    EXPECT_EQ(conv.cut().size(), static_cast<std::size_t>(stages) - 1);
  }
}

/// Long beside what a busy machine adds to a pass.
constexpr std::chrono::milliseconds kSlowLayer{40};

/// Layers of which two take most of the time.
struct UnevenNet : torch::nn::Module {
  UnevenNet() {
    dense = register_module("dense", torch::nn::Linear(64, 4));
    unused = register_module("other", torch::nn::Linear(4, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = dense(begin_layer("first", images.flatten(1)));
    for (const char* name : {"slow", "third", "slow_too", "last"}) {
      x = begin_layer(name, x);
      if (name[0] == 's') std::this_thread::sleep_for(kSlowLayer);
      x = unused(x).tanh();
    }
    return x;
  }
  torch::nn::Linear dense{nullptr}, unused{nullptr};
};

template <class Net>
class PipelineSteps {
 public:
  explicit PipelineSteps(PipelineStrategy& strategy)
      : strategy_(strategy),
        model_(strategy.create<Net>()),
        sgd_(strategy.optimizer(model_, optim::Sgd{.learning_rate = 0.1})),
        batch_(*strategy.distribute(examples().batch(kBatch)).begin()) {}

  void train() {
    strategy_.run(
        [&](const input::LabeledBatch& local) {
          sgd_.minimize(mean_loss(model_(local.features), local.labels));
        },
        batch_);
  }
  void evaluate() {
    model_.eval();
    const at::NoGradGuard no_grad;
    strategy_.run([&](const input::LabeledBatch& local) { return model_(local.features); }, batch_);
    model_.train();
  }
  void fail() {
    EXPECT_THROW(strategy_.run(
                     [&](ReplicaContext& context, const input::LabeledBatch& local) {
                       const at::Tensor loss = mean_loss(model_(local.features), local.labels);
                       if (context.replica_id() == 1) throw std::runtime_error("broken");
                       sgd_.minimize(loss);
                     },
                     batch_),
                 Error);
  }

 private:
  PipelineStrategy& strategy_;
  Replicated<Net> model_;
  Optimizer sgd_;
  PerReplica<input::LabeledBatch> batch_;
};

TEST_P(Pipelines, ThatChooseTheirCutDivideTheTimeAfterTheirFirstSteps) {
  PipelineStrategyOptions options = automatic(2, 4, {.profile_steps = 2});
  options.schedule = GetParam();
  PipelineStrategy strategy(options);
  PipelineSteps<UnevenNet> steps(strategy);
  steps.evaluate();
  steps.train();
  EXPECT_FALSE(strategy.chosen_cut());
  EXPECT_EQ(strategy.passes(), concurrency::StageOrders(2));
  steps.fail();  // does not count
  steps.evaluate();
  EXPECT_FALSE(strategy.chosen_cut());
  steps.train();
  ASSERT_TRUE(strategy.chosen_cut());
  const ChosenCut chosen = *strategy.chosen_cut();
  ASSERT_EQ(chosen.layer_costs.size(), 5U);
  EXPECT_EQ(strategy.cut(), chosen.layers);
  // After the first slow layer, with the second one.
  const bool is_between = chosen.layers == std::vector<std::string>{"third"} ||
                          chosen.layers == std::vector<std::string>{"slow_too"};
  EXPECT_TRUE(is_between) << chosen.layers.front();
  const double slow = std::chrono::duration<double>(kSlowLayer).count();
  for (const StageCost& stage : chosen.stages) EXPECT_GE(stage.forward_seconds, slow);
  EXPECT_GE(chosen.step_seconds, 5 * slow);  // the bubble and four micro-batches
  EXPECT_LT(chosen.step_seconds, 8 * slow);
  // Waiting for other micro-batches is no cost.
  for (const LayerCost& layer : chosen.layer_costs) EXPECT_LT(layer.backward_seconds, 0.8 * slow);
  steps.train();
  EXPECT_EQ(strategy.passes(), concurrency::stage_orders(GetParam(), 2, 4));
  const bool is_gpipe = GetParam() == PipelineSchedule::kGPipe;
  EXPECT_EQ(strategy.peak_micro_batches(),
            is_gpipe ? std::vector<int>({4, 4}) : std::vector<int>({2, 1}));
}

TEST(AutomaticCut, MoreStagesThanLayersAreRefusedBeforeAnyUpdate) {
  const Error error = error_of_a_step<ConvNet>(automatic(5, 4));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "A pipeline of 5 stages")) << error.what();
  EXPECT_TRUE(mentions(error, "names 4: first, second, third, last")) << error.what();
  const Error none = error_of_a_step<PlainNet>(automatic(2, 1));
  EXPECT_TRUE(mentions(none, "names none")) << none.what();
}

TEST(AutomaticCut, StaysWithinTheBytesOfAStage) {
  PipelineStrategy roomy(automatic(2, 4, {.profile_steps = 2, .bytes_per_stage = 1 << 30}));
  PipelineSteps<DeepNet> steps(roomy);
  steps.train();
  steps.train();
  ASSERT_TRUE(roomy.chosen_cut());
  std::int64_t variables = 0;
  for (const LayerCost& layer : roomy.chosen_cut()->layer_costs) {
    variables += layer.variable_bytes;
    EXPECT_GT(layer.activation_bytes, 0) << layer.name;
  }
  constexpr std::int64_t kParameters =
      (64 * 12 + 12) + (12 * 10 + 10) + (10 * 12 + 12) + (12 * 4 + 4);
  EXPECT_EQ(variables, 4 * kParameters);
  for (const StageCost& stage : roomy.chosen_cut()->stages) EXPECT_GT(stage.bytes, 0);

  PipelineStrategy narrow(automatic(2, 4, {.profile_steps = 1, .bytes_per_stage = 1000}));
  PipelineSteps<DeepNet> few(narrow);
  few.train();
  const Error error = error_from([&] { few.train(); });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(mentions(error, "within 1000 bytes")) << error.what();
}

TEST(PipelineStrategyOptions, WhatDoesNotFitIsRefused) {
  PipelineStrategyOptions options = pipe(3, 4);
  options.devices = {"cpu:0", "cpu:1"};
  EXPECT_EQ(error_from([&] { PipelineStrategy{options}; }).code(), ErrorCode::kInvalidArgument);
  options = pipe(3, -1);
  EXPECT_EQ(error_from([&] { PipelineStrategy{options}; }).code(), ErrorCode::kInvalidArgument);
  options = pipe(1, 4);
  options.cut = AutomaticCut{};
  EXPECT_TRUE(mentions(error_from([&] { PipelineStrategy{options}; }), "devices is empty"));
  options = automatic(2, 4, {.profile_steps = 0});
  EXPECT_TRUE(mentions(error_from([&] { PipelineStrategy{options}; }), "profile_steps is 0"));
  options = automatic(2, 4, {.bytes_per_stage = -1});
  EXPECT_TRUE(mentions(error_from([&] { PipelineStrategy{options}; }), "bytes_per_stage is -1"));
  options = pipe(3, 4);
  options.cut = {"second", "second"};
  EXPECT_TRUE(mentions(error_from([&] { PipelineStrategy{options}; }), "names a layer twice"));
}

TEST(PipelineStrategy, FourMicroBatchesAStageAreTheDefault) {
  PipelineStrategy strategy(pipe(3, 0));
  EXPECT_EQ(strategy.num_stages(), 3);
  EXPECT_EQ(strategy.num_replicas_in_sync(), 12);
  EXPECT_EQ(strategy.logical_replicas(), 12);
  EXPECT_EQ(strategy.stage_devices().size(), 3U);
  EXPECT_EQ(strategy.name(), "pipeline");
}

/// Its layers share nothing; one changes its input in place.
struct StraightNet : FourLayers {
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images.flatten(1));
    x = begin_layer("second", first(x).tanh_());
    x = begin_layer("third", second(x));
    x = third(x.relu_()) + 1;
    return last(begin_layer("last", x));
  }
};

/// Runs the workers of a pipeline as threads of this process. Returns what each threw; a worker
/// that throws is lost to the others.
std::vector<std::exception_ptr> run_pipeline_workers(
    int workers, PipelineStrategyOptions options,
    const std::function<void(PipelineStrategy&, int worker)>& work) {
  comm::let_ranks_be_threads();
  options.join.start_timeout = std::chrono::seconds(60);
  options.communication.timeout = std::chrono::seconds(60);
  const auto memberships = cluster::testing::make_in_memory_memberships(workers);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(workers));
  comm::run_threads(workers, [&](int worker) {
    const auto index = static_cast<std::size_t>(worker);
    try {
      PipelineStrategy strategy(memberships[index], options);
      try {
        work(strategy, worker);
      } catch (...) {
        cluster::testing::lose(*memberships[index], worker, "its thread threw");
        throw;
      }
    } catch (...) {
      thrown[index] = std::current_exception();
      cluster::testing::lose(*memberships[index], worker, "its thread threw");
    }
  });
  return thrown;
}

PipelineStrategyOptions pipe_of_workers(int stages, int micro_batches, PipelineSchedule schedule,
                                        comm::Transport transport = comm::Transport::kAuto) {
  PipelineStrategyOptions options = pipe(stages, micro_batches, schedule);
  options.communication.transport = transport;
  return options;
}

/// What all workers return, and save, equals that of one device. `make(strategy)` makes the model.
template <class Make>
void expect_workers_that_make_have_the_bits_of_one_device(int workers,
                                                          const PipelineStrategyOptions& options,
                                                          const Make& make, Update update) {
  OneDeviceStrategy one(one_device(options.micro_batches));
  const auto expected = train_made(one, make, update);
  const auto thrown =
      run_pipeline_workers(workers, options, [&](PipelineStrategy& strategy, int worker) {
        const auto ours = train_made(strategy, make, update);
        ASSERT_EQ(ours.size(), expected.size());
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_TRUE(are_equal(ours[i], expected[i])) << "worker " << worker << ", result " << i;
      });
  for (const auto& each : thrown)
    if (each) ADD_FAILURE() << error_from([&] { std::rethrow_exception(each); }).what();
}

template <class Net>
void expect_workers_have_the_bits_of_one_device(int workers, const PipelineStrategyOptions& options,
                                                Update update) {
  expect_workers_that_make_have_the_bits_of_one_device(
      workers, options, [](Strategy& strategy) { return strategy.create<Net>(); }, update);
}

TEST_P(Pipelines, OfSeveralWorkersHaveTheBitsOfOneDevice) {
  for (const int workers : {2, 4}) {
    for (const int micro_batches : {1, 5}) {
      SCOPED_TRACE(std::to_string(workers) + " workers, " + std::to_string(micro_batches));
      expect_workers_have_the_bits_of_one_device<StraightNet>(
          workers, pipe_of_workers(4, micro_batches, GetParam()), Update::kMomentum);
    }
    SCOPED_TRACE(std::to_string(workers) + " workers");
    expect_workers_have_the_bits_of_one_device<ConvNet>(
        workers, pipe_of_workers(workers, 4, GetParam()), Update::kAdamWithClipping);
  }
  expect_workers_have_the_bits_of_one_device<ConvNet>(
      3, pipe_of_workers(3, 12, GetParam(), comm::Transport::kGloo), Update::kMomentum);
}

PipelineStrategyOptions pipes_side_by_side(int replicas, int stages, int micro_batches,
                                           PipelineSchedule schedule,
                                           comm::Transport transport = comm::Transport::kAuto) {
  PipelineStrategyOptions options = pipe_of_workers(stages, micro_batches, schedule, transport);
  options.replicas = replicas;
  return options;
}

TEST_P(Pipelines, SideBySideHaveTheBitsOfOneDevice) {
  expect_workers_have_the_bits_of_one_device<StraightNet>(
      4, pipes_side_by_side(2, 2, 5, GetParam()), Update::kMomentum);
  expect_workers_have_the_bits_of_one_device<ConvNet>(4, pipes_side_by_side(2, 4, 4, GetParam()),
                                                      Update::kAdamWithClipping);
  // Pipelines of two micro-batches, one and one.
  expect_workers_have_the_bits_of_one_device<ConvNet>(
      6, pipes_side_by_side(3, 2, 4, GetParam(), comm::Transport::kGloo), Update::kMomentum);
  // Each worker has a pipeline of its own.
  expect_workers_have_the_bits_of_one_device<DeepNet>(2, pipes_side_by_side(2, 2, 5, GetParam()),
                                                      Update::kMomentum);
}

/// The parts of a model, one a stage.
struct Front : torch::nn::Module {
  Front() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 5, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(5));
  }
  at::Tensor forward(const at::Tensor& images) { return norm(conv(images)); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
struct Middle : torch::nn::Module {
  Middle() {
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    dense = register_module("dense", torch::nn::Linear(5 * 6 * 6, 7));
  }
  at::Tensor forward(at::Tensor x) { return dense(dropout(x.relu_().flatten(1))); }
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear dense{nullptr};
};

/// A module for each stage; under another strategy the same modules in a sequence of libtorch's.
template <class AnyStrategy>
auto three_parts(AnyStrategy& strategy) {
  const auto front = [] { return std::make_shared<Front>(); };
  const auto middle = [] { return std::make_shared<Middle>(); };
  const auto back = [] { return std::make_shared<torch::nn::LinearImpl>(7, 4); };
  if constexpr (std::is_same_v<AnyStrategy, PipelineStrategy>) {
    return strategy.stages(front, middle, back);
  } else {
    return strategy.create([=] {
      auto net = std::make_shared<torch::nn::SequentialImpl>();
      net->push_back(front());
      net->push_back(middle());
      net->push_back(back());
      return net;
    });
  }
}

/// Stages without a cut.
PipelineStrategyOptions uncut(int stages, int micro_batches, PipelineSchedule schedule) {
  PipelineStrategyOptions options = pipe(1, micro_batches, schedule);
  options.stages = stages;
  return options;
}

template <class Make>
void expect_uncut_pipelines_have_the_bits_of_one_device(const Make& make,
                                                        PipelineSchedule schedule) {
  {
    OneDeviceStrategy one(one_device(5));
    const auto expected = train_made(one, make, Update::kAdamWithClipping);
    PipelineStrategy strategy(uncut(3, 5, schedule));
    const auto ours = train_made(strategy, make, Update::kAdamWithClipping);
    ASSERT_EQ(ours.size(), expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(are_equal(ours[i], expected[i])) << i;
  }
  expect_workers_that_make_have_the_bits_of_one_device(3, uncut(3, 4, schedule), make,
                                                       Update::kMomentum);
  PipelineStrategyOptions side_by_side = uncut(0, 5, schedule);
  side_by_side.replicas = 2;
  expect_workers_that_make_have_the_bits_of_one_device(6, side_by_side, make, Update::kMomentum);
}

TEST_P(Pipelines, OfAModuleForEachStageHaveTheBitsOfOneDevice) {
  expect_uncut_pipelines_have_the_bits_of_one_device(
      [](auto& strategy) { return three_parts(strategy); }, GetParam());
}

TEST(PipelineStages, HaveTheNamesOfASequenceAndTheScheduleOfACut) {
  PipelineStrategy strategy(uncut(3, 6, PipelineSchedule::k1F1B));
  OneDeviceStrategy one(one_device(6));
  const auto model = three_parts(strategy);
  const auto sequence = three_parts(one);
  ASSERT_EQ(model.variables().size(), sequence.variables().size());
  for (std::size_t i = 0; i < model.variables().size(); ++i) {
    EXPECT_EQ(model.variables()[i].name(), sequence.variables()[i].name());
    EXPECT_TRUE(at::equal(model.variables()[i].read(), sequence.variables()[i].read())) << i;
  }
  EXPECT_EQ(model.variables()[0].name(), "0.conv.weight");
  EXPECT_TRUE(strategy.cut().empty());
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
  for (int step = 0; step < 2; ++step) {
    strategy.run(
        [&](const input::LabeledBatch& local) {
          sgd.minimize(mean_loss(model(local.features), local.labels));
        },
        batch);
    EXPECT_EQ(strategy.passes(), concurrency::stage_orders(PipelineSchedule::k1F1B, 3, 6));
  }
  const auto second = strategy.stages(
      CreateOptions{.name = "second"}, [] { return std::make_shared<Front>(); },
      [] { return std::make_shared<Middle>(); },
      [] { return std::make_shared<torch::nn::LinearImpl>(7, 4); });
  EXPECT_EQ(second.variables()[0].name(), "second.0.conv.weight");
}

TEST(PipelineStages, MoreOrFewerModulesThanStagesAreRefused) {
  for (const int stages : {1, 2, 4}) {
    PipelineStrategy strategy(uncut(stages, 4, PipelineSchedule::k1F1B));
    const Error error = error_from([&] { three_parts(strategy); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mentions(
        error, "was given 3 modules, and the pipeline has " + std::to_string(stages) + " stage"))
        << error.what();
  }
  PipelineStrategy cut(pipe(3, 4));
  EXPECT_TRUE(mentions(error_from([&] { three_parts(cut); }), "::cut names second, last"));
  PipelineStrategy chosen(automatic(3, 4));
  EXPECT_TRUE(mentions(error_from([&] { three_parts(chosen); }), "::cut is automatic"));
}

TEST(PipelineCut, OfNeitherTheOptionsNorTheModelIsRefused) {
  const Error error = error_of_a_step<StraightNet>(uncut(3, 4, PipelineSchedule::k1F1B));
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "has 3 stages and no cut")) << error.what();
}

/// A layer of a function, as Slim's are.
at::Tensor placed_dense(const std::string& name, const at::Tensor& inputs, std::int64_t outputs) {
  const at::Tensor x = variables::place_layer(name, inputs);
  const auto weight = variables::get_value(name + "/weight", {{outputs, x.size(1)}});
  return at::linear(x, weight, variables::get_value(name + "/bias", {{outputs}}));
}

/// Two layers in the first scope, one outside of all, two that begin with the same tensor in the
/// second scope, one in the third, one in the last.
auto function_in_scopes(const std::vector<std::string>& devices) {
  return [devices](const at::Tensor& images) {
    at::Tensor x = images.flatten(1);
    {
      const auto scope = device::with_device(devices[0]);
      x = placed_dense("first", x, 9).tanh();
      x = placed_dense("second", x, 8);
    }
    x = placed_dense("between", x, 8).tanh();
    {
      const auto scope = device::with_device(devices[1]);
      const at::Tensor left = placed_dense("left", x, 6);
      x = left + placed_dense("right", x, 6).tanh();
    }
    {
      const auto scope = device::with_device(devices[2]);
      x = placed_dense("third", x, 7).tanh();
    }
    const auto scope = device::with_device(devices[3]);
    return placed_dense("last", x, 4);
  };
}

auto maker_in_scopes(const std::vector<std::string>& devices) {
  return [devices](Strategy& strategy) {
    return strategy.create(function_in_scopes(devices), at::zeros({1, 1, 8, 8}));
  };
}

TEST_P(Pipelines, OfDeviceScopesHaveTheBitsOfOneDevice) {
  {
    OneDeviceStrategy one(one_device(5));
    const auto make = maker_in_scopes({"cpu:0", "cpu:1", "/device:CPU:2", "cpu:2"});
    const auto expected = train_made(one, make, Update::kAdamWithClipping);
    PipelineStrategy strategy(uncut(3, 5, GetParam()));
    const auto ours = train_made(strategy, make, Update::kAdamWithClipping);
    ASSERT_EQ(ours.size(), expected.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(are_equal(ours[i], expected[i])) << i;
  }
  expect_workers_that_make_have_the_bits_of_one_device(
      3, uncut(3, 5, GetParam()),
      maker_in_scopes({"/job:worker/task:0", "/task:1/cpu:0", "/job:worker/task:2", "/task:2"}),
      Update::kMomentum);
  // In pipelines side by side the tasks of the first one name the stages.
  PipelineStrategyOptions side_by_side = uncut(4, 5, GetParam());
  side_by_side.replicas = 2;
  expect_workers_that_make_have_the_bits_of_one_device(
      4, side_by_side,
      maker_in_scopes({"/task:0/cpu:0", "/task:0/cpu:1", "/task:1/cpu:0", "/task:1/cpu:1"}),
      Update::kPenalized);
}

/// The error of a first step of a function in these scopes.
Error error_in_scopes(const std::vector<std::string>& devices,
                      const PipelineStrategyOptions& options) {
  return error_of_a_step_with(maker_in_scopes(devices), options);
}

TEST(PipelineScopes, BeginTheStagesOfTheirDevices) {
  PipelineStrategy strategy(uncut(3, 6, PipelineSchedule::k1F1B));
  const auto model = maker_in_scopes({"cpu:0", "cpu:1", "cpu:2", "cpu:2"})(strategy);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
  const auto step = [&](const input::LabeledBatch& local, bool fails) {
    const at::Tensor loss = mean_loss(model(local.features), local.labels);
    if (fails) throw std::runtime_error("broken");
    sgd.minimize(loss);
  };
  for (const bool fails : {false, true, false}) {
    const auto run = [&] {
      strategy.run([&](const input::LabeledBatch& local) { step(local, fails); }, batch);
    };
    if (fails) {
      EXPECT_THROW(run(), Error);
      continue;
    }
    run();
    EXPECT_EQ(strategy.passes(), concurrency::stage_orders(PipelineSchedule::k1F1B, 3, 6));
  }
  // On two devices with two stages each, the third scope is that of the first one's second.
  PipelineStrategyOptions options = interleaved_pipe({}, 2);
  options.devices = {"cpu:0", "cpu:1"};
  const Error incomplete = error_in_scopes({"cpu:0", "cpu:1", "cpu:0", "cpu:0"}, options);
  EXPECT_TRUE(
      mentions(incomplete, "4 stages and no cut, and the model goes no further than stage 2"))
      << incomplete.what();
}

TEST(PipelineScopes, WhatDoesNotFitIsRefused) {
  const PipelineStrategyOptions three = uncut(3, 4, PipelineSchedule::k1F1B);
  const Error unknown = error_in_scopes({"cpu:0", "cpu:1", "cpu:2", "cpu:7"}, three);
  EXPECT_EQ(unknown.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(unknown, "'last'")) << unknown.what();
  EXPECT_TRUE(mentions(unknown, "The stages are on cpu:0, cpu:1, cpu:2")) << unknown.what();
  const Error back = error_in_scopes({"cpu:0", "cpu:1", "cpu:0", "cpu:0"}, three);
  EXPECT_EQ(back.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(back, "comes to it from stage 1")) << back.what();
  const Error ahead = error_in_scopes({"cpu:0", "cpu:2", "cpu:2", "cpu:2"}, three);
  EXPECT_TRUE(mentions(ahead, "in the order of the stages")) << ahead.what();
  const Error few = error_in_scopes({"cpu:0", "cpu:1", "cpu:1", "cpu:1"}, three);
  EXPECT_TRUE(mentions(few, "no further than stage 1")) << few.what();
  PipelineStrategyOptions cut = uncut(2, 4, PipelineSchedule::k1F1B);
  cut.cut = {"left"};
  const Error both = error_in_scopes({"cpu:0", "cpu:1", "cpu:1", "cpu:1"}, cut);
  EXPECT_EQ(both.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(both, "has a cut (left)")) << both.what();
  const Error chosen = error_in_scopes({"cpu:0", "cpu:1", "cpu:1", "cpu:1"}, automatic(2, 4));
  EXPECT_TRUE(mentions(chosen, "has a cut (an automatic one)")) << chosen.what();
  // Every worker has a cpu:0, and there are two.
  for (const auto& [device, text] : std::vector<std::pair<std::string, std::string>>{
           {"cpu:0", "several workers of the pipeline have that device"},
           {"/task:5", "no such task"}}) {
    const auto thrown = run_pipeline_workers(
        2, uncut(2, 4, PipelineSchedule::k1F1B), [&](PipelineStrategy& strategy, int) {
          const auto model = maker_in_scopes({device, device, device, device})(strategy);
          strategy.run([&] { model(at::zeros({4, 1, 8, 8})); });
        });
    for (const auto& each : thrown) {
      ASSERT_TRUE(each);
      const Error error = error_from([&] { std::rethrow_exception(each); });
      EXPECT_TRUE(mentions(error, text)) << error.what();
    }
  }
}

TEST(PipelinesSideBySide, ReduceTheGradientsOfTheirOwnStages) {
  const auto thrown = run_pipeline_workers(
      4, pipes_side_by_side(2, 2, 4, PipelineSchedule::k1F1B, comm::Transport::kGloo),
      [&](PipelineStrategy& strategy, int worker) {
        EXPECT_EQ(strategy.num_pipelines(), 2);
        EXPECT_EQ(strategy.num_stages(), 2);
        EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
        EXPECT_EQ(strategy.replica_range().first, worker < 2 ? 0 : 2);
        PipelineSteps<StraightNet> steps(strategy);
        steps.train();
        const std::int64_t before = strategy.reduction_bytes_sent();
        const std::int64_t activations = strategy.bytes_sent();
        steps.train();
        constexpr std::int64_t kFirstStage = (64 * 12 + 12) + (12 * 10 + 10);
        constexpr std::int64_t kLastStage = (10 * 12 + 12) + (12 * 4 + 4);
        const std::int64_t values = 4 * (worker % 2 == 0 ? kFirstStage : kLastStage);
        // Half of them to the other pipeline, and the sums of the other half; who has gradients.
        const std::int64_t sent = strategy.reduction_bytes_sent() - before;
        EXPECT_GE(sent, values);
        EXPECT_LE(sent, values + 3 * 8 * 4 + 64);
        const std::int64_t crossing = kBatch / 2 * 10 * 4 + (worker % 2) * kBatch / 2 * 4 * 4;
        EXPECT_GE(strategy.bytes_sent() - activations, crossing);
        EXPECT_LE(strategy.bytes_sent() - activations, crossing + (2 * 2 + 1) * 400);
      });
  comm::rethrow_first(thrown);
}

TEST(PipelinesSideBySide, AStepThatFailsInOneWorkerIsGivenUpByAllAndTheNextOneWorks) {
  for (const bool waits : {false, true}) {
    for (int failing = 0; failing < 4; ++failing) {
      SCOPED_TRACE(std::to_string(failing) + (waits ? ", replicas wait for one another" : ""));
      const auto thrown = run_pipeline_workers(
          4, pipes_side_by_side(2, 2, 4, PipelineSchedule::k1F1B),
          [&](Strategy& strategy, int worker) {
            const auto model = strategy.create<StraightNet>();
            const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
            const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
            const auto step = [&](bool fails) {
              strategy.run(
                  [&](ReplicaContext& context, const input::LabeledBatch& local) {
                    at::Tensor x = model(local.features);
                    if (fails && context.local_id == 1) throw std::runtime_error("broken");
                    if (waits) x = x - context.all_reduce(comm::ReduceOp::kMean, x.mean(0));
                    sgd.minimize(mean_loss(x, local.labels));
                  },
                  batch);
            };
            step(false);
            const Error error = error_from([&] { step(worker == failing); });
            EXPECT_TRUE(mentions(error, "broken")) << worker << ": " << error.what();
            step(false);
            strategy.fetch_state();
          });
      comm::rethrow_first(thrown);
    }
  }
}

TEST(PipelinesSideBySide, TheLossOfOneWorkerEndsAllAndIsNamed) {
  const auto thrown = run_pipeline_workers(4, pipes_side_by_side(2, 2, 4, PipelineSchedule::k1F1B),
                                           [&](PipelineStrategy& strategy, int worker) {
                                             PipelineSteps<StraightNet> steps(strategy);
                                             for (int step = 0; step < 6; ++step) {
                                               if (worker == 2 && step == 4)
                                                 throw std::runtime_error("killed");
                                               steps.train();
                                             }
                                           });
  // Also by a survivor that hears first of another one that gave up.
  for (const std::size_t survivor : {0U, 1U, 3U}) {
    ASSERT_TRUE(thrown[survivor]);
    const Error error = error_from([&] { std::rethrow_exception(thrown[survivor]); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    EXPECT_TRUE(mentions(error, "task:2 (rank 2")) << error.what();
  }
}

TEST(PipelinesSideBySide, NumbersThatDoNotFitAreRefused) {
  const auto refusal = [](int workers, const PipelineStrategyOptions& options) {
    const auto thrown = run_pipeline_workers(workers, options, [](Strategy&, int) {});
    return error_from([&] { std::rethrow_exception(thrown.front()); });
  };
  const Error workers = refusal(4, pipes_side_by_side(3, 2, 4, PipelineSchedule::k1F1B));
  EXPECT_EQ(workers.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(workers, "replicas is 3, and there are 4 workers")) << workers.what();
  const Error micro_batches = refusal(4, pipes_side_by_side(4, 1, 3, PipelineSchedule::k1F1B));
  EXPECT_TRUE(mentions(micro_batches, "micro_batches is 3 and ::replicas is 4"))
      << micro_batches.what();
  PipelineStrategyOptions stages = pipes_side_by_side(2, 2, 4, PipelineSchedule::k1F1B);
  stages.stages = 3;
  stages.devices = {"cpu:0"};
  EXPECT_TRUE(mentions(refusal(4, stages), "stages is 3"));
  const PipelineStrategyOptions alone = pipes_side_by_side(2, 2, 4, PipelineSchedule::k1F1B);
  EXPECT_TRUE(mentions(error_from([&] { PipelineStrategy{alone}; }), "there is 1 worker"));
}

/// What all workers return and save equals that of one device, and all have the same cut.
void expect_an_automatic_cut(int workers, int replicas, std::vector<std::string> devices = {}) {
  constexpr int kMicroBatches = 4;
  PipelineStrategyOptions options =
      pipes_side_by_side(replicas, 1, kMicroBatches, PipelineSchedule::k1F1B);
  options.cut = AutomaticCut{.profile_steps = 3};
  options.devices = std::move(devices);
  OneDeviceStrategy one(one_device(kMicroBatches));
  const auto expected = train<StraightNet>(one, Update::kAdamWithClipping);
  std::vector<std::vector<std::string>> cuts(static_cast<std::size_t>(workers));
  const auto thrown =
      run_pipeline_workers(workers, options, [&](PipelineStrategy& strategy, int worker) {
        const auto ours = train<StraightNet>(strategy, Update::kAdamWithClipping);
        ASSERT_EQ(ours.size(), expected.size());
        for (std::size_t i = 0; i < ours.size(); ++i)
          EXPECT_TRUE(are_equal(ours[i], expected[i])) << "worker " << worker << ", result " << i;
        ASSERT_TRUE(strategy.chosen_cut());
        EXPECT_EQ(strategy.chosen_cut()->layer_costs.empty(), worker != 0);
        EXPECT_EQ(static_cast<int>(strategy.cut().size()) + 1, strategy.num_stages());
        cuts[static_cast<std::size_t>(worker)] = strategy.cut();
      });
  comm::rethrow_first(thrown);
  for (const auto& cut : cuts) EXPECT_EQ(cut, cuts.front());
}

TEST(AutomaticCut, OfSeveralWorkersIsThatOfTheFirst) {
  expect_an_automatic_cut(2, 1);
  expect_an_automatic_cut(4, 2);
  expect_an_automatic_cut(2, 1, {"cpu:0", "cpu:1"});
  expect_an_automatic_cut(2, 2, {"cpu:0", "cpu:1"});
}

TEST(AutomaticCut, OfSeveralWorkersThatDoesNotExistIsRefusedInAll) {
  PipelineStrategyOptions options = pipe_of_workers(1, 4, PipelineSchedule::k1F1B);
  options.cut = AutomaticCut{.profile_steps = 1, .bytes_per_stage = 1000};
  const auto thrown = run_pipeline_workers(2, options, [&](PipelineStrategy& strategy, int) {
    PipelineSteps<StraightNet> steps(strategy);
    steps.train();
    const Error error = error_from([&] { steps.train(); });
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_TRUE(mentions(error, "within 1000 bytes")) << error.what();
  });
  comm::rethrow_first(thrown);
}

/// Its gradients overflow in the second stage only, if they are scaled by much.
struct SteepNet : FourLayers {
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images.flatten(1));
    x = begin_layer("second", first(x).tanh_());
    x = third(begin_layer("third", second(x)));
    return last(begin_layer("last", x + 1e3));
  }
};

TEST(PipelineWorkers, LeaveOutAnUpdateThatOverflowsInOneStage) {
  const auto train_scaled = [](Strategy& strategy) {
    const auto model = strategy.create<SteepNet>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.01},
                                        {.gradient_scaler = GradientScalerOptions{
                                             .initial_scale = 0x1p124, .backoff_factor = 1e-3}});
    const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
    for (int step = 0; step < 4; ++step) {
      strategy.run(
          [&](const input::LabeledBatch& local) {
            sgd.minimize(mean_loss(model(local.features), local.labels));
          },
          batch);
    }
    strategy.fetch_state();
    std::vector<at::Tensor> values = {at::full({1}, sgd.skipped_updates(), at::kLong)};
    for (const auto& variable : model.variables()) values.push_back(variable.read());
    return values;
  };
  OneDeviceStrategy one(one_device(4));
  const auto expected = train_scaled(one);
  ASSERT_GT(expected.front().item<int>(), 0);
  ASSERT_LT(expected.front().item<int>(), 4);
  for (const int replicas : {1, 2}) {
    const auto thrown = run_pipeline_workers(
        2 * replicas, pipes_side_by_side(replicas, 2, 4, PipelineSchedule::k1F1B),
        [&](Strategy& strategy, int) {
          const auto ours = train_scaled(strategy);
          for (std::size_t i = 0; i < ours.size(); ++i)
            EXPECT_TRUE(at::equal(ours[i], expected[i])) << i;
        });
    comm::rethrow_first(thrown);
  }
}

TEST(PipelineWorkers, SendActivationsGradientsAndResultsOnly) {
  constexpr int kMicroBatches = 4;
  const auto thrown = run_pipeline_workers(
      2, pipe_of_workers(2, kMicroBatches, PipelineSchedule::k1F1B),
      [&](PipelineStrategy& strategy, int worker) {
        PipelineSteps<StraightNet> steps(strategy);
        steps.train();
        const std::int64_t before = strategy.bytes_sent();
        steps.train();
        const std::int64_t sent = strategy.bytes_sent() - before;
        const std::int64_t crossing = kBatch * 10 * 4;  // activations, or the gradients by them
        const std::int64_t values = worker == 0 ? crossing : crossing + kBatch * 4 * 4;
        EXPECT_GE(sent, values);
        EXPECT_LE(sent, values + (2 * kMicroBatches + 1) * 400);
      });
  comm::rethrow_first(thrown);
}

TEST(PipelineWorkers, EachUpdatesItsOwnVariablesAndFetchesTheOthers) {
  const auto thrown = run_pipeline_workers(
      2, pipe_of_workers(2, 4, PipelineSchedule::k1F1B), [&](Strategy& strategy, int worker) {
        const auto model = strategy.create<StraightNet>();
        const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
        std::vector<at::Tensor> initial;
        for (const auto& variable : model.variables()) initial.push_back(variable.read());
        for (const auto& batch : strategy.distribute(examples().batch(kBatch))) {
          strategy.run(
              [&](const input::LabeledBatch& local) {
                sgd.minimize(mean_loss(model(local.features), local.labels));
              },
              batch);
        }
        // first.weight, first.bias, second.weight, second.bias | third.weight, ...
        for (std::size_t i = 0; i < initial.size(); ++i) {
          const bool is_own = (i < 4) == (worker == 0);
          EXPECT_EQ(at::equal(model.variables()[i].read(), initial[i]), !is_own) << i;
        }
        strategy.fetch_state();
        for (std::size_t i = 0; i < initial.size(); ++i)
          EXPECT_FALSE(at::equal(model.variables()[i].read(), initial[i])) << i;
      });
  comm::rethrow_first(thrown);
}

/// Layers of two stages change one variable.
struct SharedStateNet : FourLayers {
  SharedStateNet() { seen = register_buffer("seen", at::zeros({1})); }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images.flatten(1));
    x = begin_layer("second", first(x).tanh_());
    seen.add_(x.detach().sum());
    x = second(x);
    x = begin_layer("third", x);
    seen.add_(x.detach().sum());
    return last(begin_layer("last", third(x)));
  }
  at::Tensor seen;
};

TEST(PipelineWorkers, StateThatStagesOfTwoShareIsRefusedByName) {
  const auto thrown = run_pipeline_workers(
      2, pipe_of_workers(2, 4, PipelineSchedule::k1F1B), [&](Strategy& strategy, int) {
        const auto model = strategy.create<SharedStateNet>();
        const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
        const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
        strategy.run(
            [&](const input::LabeledBatch& local) {
              sgd.minimize(mean_loss(model(local.features), local.labels));
            },
            batch);
        const Error error = error_from([&] { strategy.fetch_state(); });
        EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition) << error.what();
        EXPECT_TRUE(mentions(error, "'seen'")) << error.what();
      });
  comm::rethrow_first(thrown);
}

TEST(PipelineWorkers, AStepThatFailsInOneIsGivenUpByAllAndTheNextOneWorks) {
  for (const int failing : {0, 1, 2}) {
    SCOPED_TRACE(failing);
    const auto thrown = run_pipeline_workers(
        3, pipe_of_workers(3, 4, PipelineSchedule::k1F1B), [&](Strategy& strategy, int worker) {
          const auto model = strategy.create<StraightNet>();
          const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
          const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
          const auto step = [&](bool fails) {
            strategy.run(
                [&](ReplicaContext& context, const input::LabeledBatch& local) {
                  const at::Tensor loss = mean_loss(model(local.features), local.labels);
                  if (fails && context.replica_id() == 1) throw std::runtime_error("broken");
                  sgd.minimize(loss);
                },
                batch);
          };
          step(false);
          const Error error = error_from([&] { step(worker == failing); });
          EXPECT_TRUE(mentions(error, "broken")) << worker << ": " << error.what();
          if (worker != failing) {
            EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.what();
          }
          step(false);
          strategy.fetch_state();
        });
    comm::rethrow_first(thrown);
  }
}

TEST(PipelineWorkers, TheLossOfOneIsAnErrorThatNamesIt) {
  const auto thrown = run_pipeline_workers(
      3, pipe_of_workers(3, 4, PipelineSchedule::k1F1B), [&](Strategy& strategy, int worker) {
        const auto model = strategy.create<StraightNet>();
        const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
        const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
        for (int step = 0; step < 3; ++step) {
          if (worker == 1 && step == 1) throw std::runtime_error("killed");
          strategy.run(
              [&](const input::LabeledBatch& local) {
                sgd.minimize(mean_loss(model(local.features), local.labels));
              },
              batch);
        }
      });
  for (const std::size_t survivor : {0U, 2U}) {
    ASSERT_TRUE(thrown[survivor]);
    const Error error = error_from([&] { std::rethrow_exception(thrown[survivor]); });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
    EXPECT_TRUE(mentions(error, "task:1 (rank 1")) << error.what();
  }
}

/// Each worker's error in its first step, with the loss `loss_of(model, mean loss)`.
template <class Net, class Loss>
std::vector<Error> errors_of_workers(int workers, const PipelineStrategyOptions& options,
                                     const Loss& loss_of) {
  std::vector<Error> errors(static_cast<std::size_t>(workers),
                            Error(ErrorCode::kInternal, "no error"));
  const auto thrown =
      run_pipeline_workers(workers, options, [&](PipelineStrategy& strategy, int worker) {
        const auto model = strategy.create<Net>();
        const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
        const auto batch = *strategy.distribute(examples().batch(kBatch)).begin();
        errors[static_cast<std::size_t>(worker)] = error_from([&] {
          strategy.run(
              [&](const input::LabeledBatch& local) {
                sgd.minimize(loss_of(model, mean_loss(model(local.features), local.labels)));
              },
              batch);
        });
      });
  comm::rethrow_first(thrown);
  return errors;
}

/// Its loss uses a variable that no layer does.
struct TemperatureNet : StraightNet {
  TemperatureNet() { temperature = register_parameter("temperature", at::full({1}, 2.0)); }
  at::Tensor temperature;
};

/// The first and the last layer, and the one before, use one weight, each in another way.
struct TiedNet : FourLayers {
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = begin_layer("first", images.flatten(1));
    x = begin_layer("second", first(x).tanh());
    x = third(begin_layer("third", second(x)));
    x = begin_layer("last", at::linear(x, first->weight.t()));
    x = at::linear(x, first->weight) + at::linear(x, first->weight).tanh();
    return last(x);
  }
};

TEST_P(Pipelines, OfSeveralWorkersTrainTiedWeightsWithTheBitsOfOneDevice) {
  for (const Update update : {Update::kMomentum, Update::kAdamWithClipping}) {
    expect_workers_have_the_bits_of_one_device<DeepNet>(2, pipe_of_workers(2, 5, GetParam()),
                                                        update);
    // A worker in the middle does not use it.
    expect_workers_have_the_bits_of_one_device<TiedNet>(4, pipe_of_workers(4, 5, GetParam()),
                                                        update);
  }
  expect_workers_have_the_bits_of_one_device<TiedNet>(
      2, pipe_of_workers(4, 12, GetParam(), comm::Transport::kGloo), Update::kAccumulated);
  expect_workers_have_the_bits_of_one_device<TiedNet>(4, pipes_side_by_side(2, 2, 5, GetParam()),
                                                      Update::kAdam);
}

TEST_P(Pipelines, OfSeveralWorkersPenalizeWeightsWithTheBitsOfOneDevice) {
  expect_workers_have_the_bits_of_one_device<StraightNet>(4, pipe_of_workers(4, 5, GetParam()),
                                                          Update::kPenalized);
  expect_workers_have_the_bits_of_one_device<ConvNet>(4, pipes_side_by_side(2, 2, 4, GetParam()),
                                                      Update::kPenalized);
}

TEST(PipelineWorkers, SendTheGradientsAndTheValuesOfTiedWeightsOnly) {
  const auto bytes_of_step = [](auto train_step, PipelineStrategy& strategy) {
    train_step();
    const std::int64_t before = strategy.bytes_sent();
    train_step();
    return strategy.bytes_sent() - before;
  };
  const auto thrown = run_pipeline_workers(
      2, pipe_of_workers(2, 4, PipelineSchedule::k1F1B),
      [&](PipelineStrategy& strategy, int worker) {
        std::int64_t straight = 0;
        {
          PipelineSteps<StraightNet> steps(strategy);
          straight = bytes_of_step([&] { steps.train(); }, strategy);
        }
        PipelineSteps<DeepNet> steps(strategy);
        const std::int64_t tied = bytes_of_step([&] { steps.train(); }, strategy);
        // Of each micro-batch from the second worker to the first; what crosses is the same.
        const std::int64_t gradients = worker == 1 ? 4 * (12 * 64 * 4 + 1) : 0;
        EXPECT_EQ(tied - straight, gradients);
      });
  comm::rethrow_first(thrown);
}

TEST(PipelineWorkers, WhatIsNotBuiltIsRefusedInAll) {
  const PipelineStrategyOptions options = pipe_of_workers(2, 4, PipelineSchedule::k1F1B);
  const auto penalized = [](const auto& model, const at::Tensor& loss) {
    return loss + sum_of_squares(model.variables());
  };
  for (const Error& error : errors_of_workers<DeepNet>(2, options, penalized)) {
    EXPECT_TRUE(mentions(error, "penalty of the variable 'first.weight'")) << error.what();
  }
  const auto scaled = [](const auto& model, const at::Tensor& loss) {
    return loss * model->temperature.sum();
  };
  for (const Error& error : errors_of_workers<TemperatureNet>(2, options, scaled)) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
    EXPECT_TRUE(mentions(error, "'temperature' has gradients in worker 0 and in worker 1"))
        << error.what();
  }
  PipelineStrategyOptions unknown = options;
  unknown.cut = std::vector<std::string>{"thirds"};
  const auto plain = [](const auto& /*model*/, const at::Tensor& loss) { return loss; };
  for (const Error& error : errors_of_workers<StraightNet>(2, unknown, plain)) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_TRUE(mentions(error, "did you mean 'third'?")) << error.what();
  }
}

PipelineStrategyOptions interleaved_workers(int stages, int micro_batches, int chunks,
                                            comm::Transport transport = comm::Transport::kAuto) {
  PipelineStrategyOptions options =
      pipe_of_workers(stages, micro_batches, PipelineSchedule::kInterleaved, transport);
  options.chunks_per_device = chunks;
  options.devices = {};
  return options;
}

TEST(InterleavedWorkers, HaveTheBitsOfOneDevice) {
  for (const int micro_batches : {1, 4, 5}) {
    SCOPED_TRACE(micro_batches);
    expect_workers_have_the_bits_of_one_device<StraightNet>(
        2, interleaved_workers(4, micro_batches, 2), Update::kMomentum);
  }
  expect_workers_have_the_bits_of_one_device<ConvNet>(2, interleaved_workers(4, 4, 2),
                                                      Update::kAdamWithClipping);
  expect_workers_have_the_bits_of_one_device<ConvNet>(
      2, interleaved_workers(4, 6, 2, comm::Transport::kGloo), Update::kMomentum);
  // Two pipelines of two workers each.
  PipelineStrategyOptions side_by_side = interleaved_workers(4, 6, 2);
  side_by_side.replicas = 2;
  expect_workers_have_the_bits_of_one_device<ConvNet>(4, side_by_side, Update::kAdamWithClipping);
}

TEST(InterleavedWorkers, MakeThePassesOfTheirSchedule) {
  const auto thrown = run_pipeline_workers(
      2, interleaved_workers(4, 4, 2), [](PipelineStrategy& strategy, int worker) {
        PipelineSteps<StraightNet> steps(strategy);
        steps.evaluate();
        steps.train();
        const auto all = concurrency::stage_orders(PipelineSchedule::kInterleaved, 2, 4, 2);
        EXPECT_EQ(strategy.passes(),
                  concurrency::StageOrders{all[static_cast<std::size_t>(worker)]});
        EXPECT_EQ(strategy.num_stages(), 4);
      });
  comm::rethrow_first(thrown);
}

TEST(InterleavedWorkers, RefuseTiedWeightsInAll) {
  const auto plain = [](const auto& /*model*/, const at::Tensor& loss) { return loss; };
  bool is_refused = false;
  for (const Error& error : errors_of_workers<DeepNet>(2, interleaved_workers(4, 4, 2), plain)) {
    // A worker that still waits for another pass has it from the one that refuses first.
    const bool is_own = error.code() == ErrorCode::kUnimplemented;
    EXPECT_TRUE(is_own || error.code() == ErrorCode::kAborted) << error.what();
    EXPECT_TRUE(mentions(error, "use the variable 'first.weight'")) << error.what();
    is_refused = is_refused || is_own;
  }
  EXPECT_TRUE(is_refused);
}

}  // namespace
}  // namespace brigade::distribute
