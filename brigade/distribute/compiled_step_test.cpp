#include "brigade/distribute/compiled_step.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

struct DroppingNet : torch::nn::Module {
  DroppingNet() {
    linear = register_module("linear", torch::nn::Linear(4, 3));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(linear(x)); }
  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

enum class How { kRun, kCompiled };

/// The weights, and the losses, of a training whose last batches are smaller and whose rate
/// changes.
std::vector<at::Tensor> train_for_values(Strategy& strategy, How how) {
  auto model = strategy.create<DroppingNet>();
  auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
  const auto step = [&](const at::Tensor& x) {
    const at::Tensor loss = model(x).square().mean();
    sgd.minimize(loss, LossScale::kSum);
    return loss.detach();
  };
  auto compiled = strategy.compile(step);
  std::vector<at::Tensor> seen;
  for (int number = 0; number < 8; ++number) {
    const at::Tensor x = at::full({number < 6 ? 8 : 5, 4}, 1.0F + static_cast<float>(number));
    if (number == 3) sgd.set_learning_rate(0.01);
    const auto losses = how == How::kRun ? strategy.run(step, x) : compiled(x);
    seen.insert(seen.end(), losses.values().begin(), losses.values().end());
  }
  for (const auto& variable : model.variables()) seen.push_back(variable.component(0).clone());
  return seen;
}

void expect_equal_trainings(Strategy& one, Strategy& other) {
  const auto run = train_for_values(one, How::kRun);
  const auto compiled = train_for_values(other, How::kCompiled);
  ASSERT_EQ(run.size(), compiled.size());
  for (std::size_t i = 0; i < run.size(); ++i) EXPECT_TRUE(at::equal(run[i], compiled[i])) << i;
}

TEST(CompiledStep, HasTheResultsOfRunWithOtherShapesRatesAndDropout) {
  OneDeviceStrategy one({.device = "cpu:0", .seed = 7});
  OneDeviceStrategy other({.device = "cpu:0", .seed = 7});
  expect_equal_trainings(one, other);
  MirroredStrategy two(cpus(2, 7));
  MirroredStrategy two_others(cpus(2, 7));
  expect_equal_trainings(two, two_others);
}

TEST(CompiledStep, SaysWhyItRunsEagerly) {
  OneDeviceStrategy one("cpu:0");
  auto on_cpu = one.compile([](const at::Tensor& x) { return x + 1; });
  EXPECT_EQ(on_cpu(at::full({2}, 1.0)).values()[0][0].item<double>(), 2);
  EXPECT_NE(on_cpu.eager_reason().find("on a CPU"), std::string::npos) << on_cpu.eager_reason();
  MirroredStrategy two(cpus(2));
  auto on_two = two.compile([] {});
  on_two();
  EXPECT_EQ(on_two.eager_reason(), "the replicas are on CPUs, where nothing is captured");
}

TEST(CompiledStep, TakesWhatRunTakes) {
  MirroredStrategy two(cpus(2));
  int calls = 0;
  auto step = two.compile(
      [&](ReplicaContext& context, const std::string& text, int number) {
        if (context.replica_id() == 0) ++calls;
        return text + std::to_string(number);
      },
      {.warmup = 1});
  const auto results = step(std::string("a"), PerReplica<int>({1, 2}));
  EXPECT_EQ(results.values(), std::vector<std::string>({"a1", "a2"}));
  EXPECT_EQ(calls, 1);
}

TEST(CompiledStep, ABodyThatThrowsThrowsAndTheNextCallWorks) {
  OneDeviceStrategy one("cpu:0");
  bool throws = true;
  auto step = one.compile([&](const at::Tensor& x) {
    if (throws) throw Error(ErrorCode::kOutOfRange, "the body gave up");
    return x * 2;
  });
  const at::Tensor x = at::full({2}, 3.0);
  const Error error = error_from([&] { step(x); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  EXPECT_TRUE(mentions(error, "the body gave up"));
  throws = false;
  EXPECT_EQ(step(x).values()[0][0].item<double>(), 6);
}

using device::testing::FakeDevice;

[[maybe_unused]] const FakeDevice& registered_first = FakeDevice::get();

struct CardNet : torch::nn::Module {
  CardNet() {
    weight = register_parameter("weight", at::linspace(-1, 1, 12).view({4, 3}).to(card()));
    bias = register_parameter("bias", at::zeros({3}).to(card()));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  static c10::Device card() { return FakeDevice::device(); }
  at::Tensor forward(const at::Tensor& x) { return dropout(at::addmm(bias, x, weight)); }
  at::Tensor weight, bias;
  torch::nn::Dropout dropout{nullptr};
};

/// A training on a card, whose steps are run or compiled.
struct CardTraining {
  explicit CardTraining(How the_way, const OptimizerOptions& options = {}, int replicas = 1)
      : how(the_way),
        strategy(replicas, /*seed=*/7),
        model(strategy.create<CardNet>()),
        adam(strategy.optimizer(model, optim::Adam{.learning_rate = 0.125}, options)),
        body([this](const at::Tensor& x) { return update(x); }),
        compiled(strategy.compile(body, {.warmup = 2})) {
    for (int number = 0; number < 12; ++number)
      inputs.push_back(at::linspace(-1, 1 + number, 4 * 8).view({8, 4}).to(CardNet::card()));
  }
  virtual ~CardTraining() = default;

  virtual at::Tensor update(const at::Tensor& x) {
    ++calls;
    const at::Tensor loss = model(x).square().mean();
    if (clips) {
      Gradients gradients = adam.aggregate(adam.compute_gradients(loss, LossScale::kSum));
      optim::clip_by_global_norm_(gradients, 0.5);
      adam.apply_gradients(gradients);
    } else {
      adam.minimize(loss, LossScale::kSum);
    }
    return loss.detach();
  }
  template <class X>
  void step(const X& x) {
    const auto result = how == How::kRun ? strategy.run(body, x) : compiled(x);
    losses.insert(losses.end(), result.values().begin(), result.values().end());
  }
  /// Another batch for each replica.
  PerReplica<at::Tensor> split(std::size_t number) const {
    std::vector<at::Tensor> parts;
    for (int replica = 0; replica < strategy.num_local_replicas(); ++replica)
      parts.push_back(inputs[number] + replica);
    return PerReplica<at::Tensor>(std::move(parts));
  }
  /// Everything that must not depend on how steps are made.
  std::vector<at::Tensor> state() {
    std::vector<at::Tensor> all;
    for (const at::Tensor& loss : losses) all.push_back(FakeDevice::read(loss));
    for (std::size_t i = 0; i < adam.state().variables().size(); ++i) {
      all.push_back(FakeDevice::read(adam.state().variables()[i].component(0).detach()));
      all.push_back(FakeDevice::read(adam.state().slot(i, 1, 0)));
      all.push_back(at::full({}, adam.state().step(i)));
    }
    all.push_back(at::full({}, adam.updates()));
    return all;
  }

  const How how;
  CardStrategy strategy;
  Replicated<CardNet> model;
  Optimizer adam;
  std::function<at::Tensor(const at::Tensor&)> body;
  CompiledStep<std::function<at::Tensor(const at::Tensor&)>> compiled;
  bool clips = false;
  std::atomic<int> calls = 0;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> losses;
};

void expect_equal_states(CardTraining& run, CardTraining& compiled) {
  const auto ours = compiled.state();
  const auto theirs = run.state();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(ours[i].equal(theirs[i])) << i << "\n" << ours[i] << "\n" << theirs[i];
}

TEST(CompiledStepOnACard, UpdatesAreReplayedWithTheirRatesAndDropoutAndNobodyWaits) {
  for (const bool clips : {false, true}) {
    CardTraining run(How::kRun), compiled(How::kCompiled);
    for (CardTraining* each : {&run, &compiled}) {
      each->clips = clips;
      const int waits = FakeDevice::get().host_waits();
      for (std::size_t number = 0; number < each->inputs.size(); ++number) {
        each->adam.set_learning_rate(0.125 / static_cast<double>(number + 1));  // a schedule
        each->step(each->inputs[number]);
      }
      EXPECT_EQ(FakeDevice::get().host_waits(), waits) << (each == &run ? "run" : "compiled");
    }
    EXPECT_EQ(compiled.compiled.eager_reason(), "");
    EXPECT_EQ(compiled.calls, 3) << "two before the capture, and the capture";
    expect_equal_states(run, compiled);
    EXPECT_EQ(compiled.adam.updates(), 12);
  }
}

TEST(CompiledStepOnACard, ALossIsReducedAsAfterRun) {
  for (const int replicas : {1, 2}) {
    std::vector<at::Tensor> losses;
    for (const How how : {How::kRun, How::kCompiled}) {
      CardTraining training(how, {}, replicas);
      const auto body = [&](const at::Tensor& x) {
        return training.adam.minimize(training.model(x).square().mean(), LossScale::kSum);
      };
      auto compiled = training.strategy.compile(body, {.warmup = 2});
      std::vector<PerReplica<StepLoss>> of_steps;  // replays must not change those of earlier steps
      for (std::size_t number = 0; number < 6; ++number) {
        const auto batch = training.split(number);
        of_steps.push_back(how == How::kRun ? training.strategy.run(body, batch) : compiled(batch));
      }
      EXPECT_EQ(compiled.eager_reason(), "");
      for (const auto& each : of_steps)
        losses.push_back(FakeDevice::read(training.strategy.reduce_loss(each)));
    }
    for (std::size_t number = 0; number < 6; ++number)
      EXPECT_TRUE(losses[number].equal(losses[number + 6])) << number;
  }
}

TEST(CompiledStepOnACard, OtherShapesRunEagerlyInBetween) {
  CardTraining run(How::kRun), compiled(How::kCompiled);
  for (CardTraining* each : {&run, &compiled}) {
    for (std::size_t number = 0; number < 9; ++number) {
      const bool is_small = number == 5 || number == 8;
      each->step(is_small ? each->inputs[number].narrow(0, 0, 3).clone() : each->inputs[number]);
    }
  }
  EXPECT_NE(compiled.compiled.eager_reason().find("[3, 4]"), std::string::npos)
      << compiled.compiled.eager_reason();
  expect_equal_states(run, compiled);
}

TEST(CompiledStepOnACard, ARestoredOptimizerContinuesInReplays) {
  CardTraining run(How::kRun), compiled(How::kCompiled);
  for (CardTraining* each : {&run, &compiled}) {
    for (std::size_t number = 0; number < 5; ++number) each->step(each->inputs[number]);
    optim::SavedOptimizer saved = each->adam.save("adam");
    for (auto& [name, slot] : saved.slots) slot = slot.clone();
    for (std::size_t number = 5; number < 8; ++number) each->step(each->inputs[number]);
    each->adam.restore("adam", saved);
    for (std::size_t number = 8; number < 12; ++number) each->step(each->inputs[number]);
  }
  EXPECT_EQ(compiled.compiled.eager_reason(), "");
  expect_equal_states(run, compiled);
}

TEST(CompiledStepOnACard, AGlobalStepIsCountedInReplaysAndReadWithoutTheCard) {
  for (const How how : {How::kRun, How::kCompiled}) {
    CardTraining training(how);
    std::optional<variables::Variable> counter;
    {
      const auto scope = training.strategy.scope();
      counter = variables::make_variable(
          {.name = "steps", .initial = at::full({}, 40, at::kLong), .trainable = false});
    }
    training.adam = training.strategy.optimizer(training.model, optim::Sgd{.learning_rate = 0.125},
                                                {.global_step = counter});
    EXPECT_EQ(training.adam.global_step_value(), 40);
    const int waits = FakeDevice::get().host_waits();
    for (std::size_t number = 0; number < 6; ++number) {
      training.step(training.inputs[number]);
      EXPECT_EQ(training.adam.global_step_value(), 41 + static_cast<std::int64_t>(number));
    }
    EXPECT_EQ(FakeDevice::get().host_waits(), waits);
    EXPECT_EQ(FakeDevice::read(counter->component(0)).item<std::int64_t>(), 46);
    counter->assign(at::full({}, 7, at::kLong));
    EXPECT_EQ(training.adam.global_step_value(), 7) << "somebody else has changed it";
  }
}

struct ReadingTraining final : CardTraining {
  using CardTraining::CardTraining;
  at::Tensor update(const at::Tensor& x) override {
    const at::Tensor loss = CardTraining::update(x);
    if (loss.item<double>() < 0) throw std::runtime_error("a square is not negative");
    return loss;
  }
};

TEST(CompiledStepOnACard, ABodyThatReadsOnTheHostRunsEagerlyAndCountsEachUpdateOnce) {
  ReadingTraining run(How::kRun), compiled(How::kCompiled);
  for (CardTraining* each :
       {static_cast<CardTraining*>(&run), static_cast<CardTraining*>(&compiled)})
    for (std::size_t number = 0; number < 6; ++number) each->step(each->inputs[number]);
  EXPECT_NE(compiled.compiled.eager_reason().find("stream is capturing"), std::string::npos)
      << compiled.compiled.eager_reason();
  expect_equal_states(run, compiled);
}

struct ThrowingTraining final : CardTraining {
  using CardTraining::CardTraining;
  at::Tensor update(const at::Tensor& x) override {
    if (throws) throw Error(ErrorCode::kOutOfRange, "the body gave up");
    return CardTraining::update(x);
  }
  bool throws = false;
};

TEST(CompiledStepOnACard, ABodyThatThrowsInItsCaptureThrowsAndTheNextStepWorks) {
  ThrowingTraining run(How::kRun), compiled(How::kCompiled);
  for (ThrowingTraining* each : {&run, &compiled}) {
    for (std::size_t number = 0; number < 6; ++number) {
      each->throws = number == 2;  // the capture
      if (each->throws) {
        const Error error = error_from([&] { each->step(each->inputs[number]); });
        EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
        EXPECT_TRUE(mentions(error, "the body gave up"));
      } else {
        each->step(each->inputs[number]);
      }
    }
  }
  EXPECT_NE(compiled.compiled.eager_reason().find("the body gave up"), std::string::npos);
  expect_equal_states(run, compiled);
}

TEST(CompiledStepOnACard, WhatTheHostDecidesIsNotCaptured) {
  CardTraining accumulating(How::kCompiled, {.accumulate = 2});
  CardTraining scaling(How::kCompiled, {.gradient_scaler = GradientScalerOptions{}});
  for (std::size_t number = 0; number < 8; ++number) {
    accumulating.step(accumulating.inputs[number]);
    if (number < 4) scaling.step(scaling.inputs[number]);
  }
  EXPECT_NE(accumulating.compiled.eager_reason().find("micro-batches"), std::string::npos)
      << accumulating.compiled.eager_reason();
  EXPECT_EQ(accumulating.adam.updates(), 4);
  EXPECT_NE(scaling.compiled.eager_reason().find("gradient scaler"), std::string::npos)
      << scaling.compiled.eager_reason();
  EXPECT_EQ(scaling.adam.updates(), 4);
}

/// The replicas share what they compute besides the update.
struct SharingTraining final : CardTraining {
  SharingTraining(How how, int replicas) : CardTraining(how, {}, replicas) {}
  at::Tensor update(const at::Tensor& x) override {
    if (throws && current_replica_context()->replica_id() == 1)
      throw Error(ErrorCode::kOutOfRange, "replica 1 gave up");
    const at::Tensor loss = CardTraining::update(x);
    return current_replica_context()->all_reduce(comm::ReduceOp::kMean, loss);
  }
  bool throws = false;
};

// Late work, so that a missing edge between the replicas' streams in the graph is a wrong value.
TEST(CompiledStepOnACard, LogicalReplicasAreCapturedAsOneGraph) {
  for (const int replicas : {2, 3}) {
    SharingTraining run(How::kRun, replicas), compiled(How::kCompiled, replicas);
    for (CardTraining* each :
         {static_cast<CardTraining*>(&run), static_cast<CardTraining*>(&compiled)}) {
      const int waits = FakeDevice::get().host_waits();
      for (std::size_t number = 0; number < each->inputs.size(); ++number) {
        each->adam.set_learning_rate(0.125 / static_cast<double>(number + 1));
        each->step(each->split(number));
      }
      EXPECT_EQ(FakeDevice::get().host_waits(), waits) << (each == &run ? "run" : "compiled");
    }
    EXPECT_EQ(compiled.compiled.eager_reason(), "");
    EXPECT_EQ(compiled.calls, 3 * replicas) << "two calls before the capture, and the capture";
    EXPECT_EQ(compiled.losses.size(), run.losses.size());
    expect_equal_states(run, compiled);
    EXPECT_EQ(compiled.adam.updates(), 12);
    EXPECT_EQ(compiled.strategy.step(), 12u);
  }
}

TEST(CompiledStepOnACard, OtherShapesOfOneReplicaRunAllEagerly) {
  CardTraining run(How::kRun, {}, 2), compiled(How::kCompiled, {}, 2);
  for (CardTraining* each : {&run, &compiled}) {
    for (std::size_t number = 0; number < 7; ++number) {
      PerReplica<at::Tensor> parts = each->split(number);
      if (number == 4) parts[1] = parts[1].narrow(0, 0, 3).clone();
      each->step(parts);
    }
  }
  EXPECT_EQ(compiled.calls, 2 * 4) << "two calls before the capture, the capture, and the other";
  expect_equal_states(run, compiled);
}

TEST(CompiledStepOnACard, AReplicaThatThrowsInTheCaptureReleasesTheOthers) {
  SharingTraining run(How::kRun, 2), compiled(How::kCompiled, 2);
  for (SharingTraining* each : {&run, &compiled}) {
    for (std::size_t number = 0; number < 6; ++number) {
      each->throws = number == 2;  // the capture
      if (each->throws) {
        const Error error = error_from([&] { each->step(each->split(number)); });
        EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
        EXPECT_TRUE(mentions(error, "replica 1 gave up")) << error.what();
      } else {
        each->step(each->split(number));
      }
    }
  }
  EXPECT_NE(compiled.compiled.eager_reason().find("replica 1 gave up"), std::string::npos)
      << compiled.compiled.eager_reason();
  expect_equal_states(run, compiled);
}

}  // namespace
}  // namespace brigade::distribute
