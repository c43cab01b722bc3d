#include "brigade/train/model/custom_train_step.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/layers/regularizers.h"
#include "brigade/train/callbacks/stop_callbacks.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using input::NamedTensors;

FitOptions epochs(std::int64_t count) {
  return {.epochs = count, .batch_size = 10, .verbose = Verbose::kSilent};
}

CompileOptions usual() {
  return {.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse", .metrics = {"mae"}};
}

/// What the usual step does.
NamedTensors same_step(TrainStepContext& step, const ModelBatch& batch) {
  const at::Tensor output = step.forward(batch.input());
  const at::Tensor loss = step.compute_loss(batch, output);
  step.optimizer().minimize(loss);
  step.update_metrics(batch, output);
  return NamedTensors({{"loss", loss}});
}

auto regularized_line() {
  return [](const at::Tensor& x, variables::Mode) {
    return layers::v1::dense(x, 1,
                             {.kernel_initializer = variables::constant_initializer(0.5),
                              .kernel_regularizer = layers::l2_regularizer(0.1),
                              .name = "line"});
  };
}

History fitted(int replicas, const CompileOptions& compiled, const FitOptions& options) {
  distribute::MirroredStrategy strategy(distribute::cpus(replicas));
  Model model(strategy, regularized_line());
  model.compile(compiled);
  return model.fit(line_data(37), options);
}

TEST(CustomTrainStep, TheUsualStepWrittenOutHasTheSameHistory) {
  FitOptions options = epochs(3);
  options.validation_data = line_data(11);
  options.class_weight = {{0, 2.0}, {1, 0.5}};
  CompileOptions own = usual();
  own.train_step = CustomTrainStep({"loss", "mae"}, same_step);
  EXPECT_EQ(fitted(2, own, options).logs, fitted(2, usual(), options).logs);
}

// With a scale at which the first gradients overflow: then both leave out the same updates.
TEST(CustomTrainStep, TheUsualStepWrittenOutIsTheSameInLowPrecision) {
  const ModelBatch data = [] {
    const at::Tensor i = at::arange(37, at::kFloat);
    const at::Tensor x = at::stack({(i * 0.7).sin(), (i * 1.3).cos()}, 1);
    return ModelBatch{.inputs = unnamed(x), .labels = unnamed(x.sum(1) + 1)};
  }();
  const auto result_of = [&](device::Precision precision, std::optional<CustomTrainStep> step) {
    distribute::MirroredStrategy strategy(distribute::cpus(2));
    strategy.set_precision(precision);
    Model model(strategy, regularized_line());
    CompileOptions compiled = usual();
    compiled.train_step = std::move(step);
    if (precision == device::Precision::kFp16)
      compiled.optimizer_options.gradient_scaler = {.initial_scale = 1 << 18};
    model.compile(compiled);
    const auto logs = model.fit(data, epochs(3)).logs;
    return std::pair(logs, model.global_step());
  };
  for (const auto precision : {device::Precision::kBf16, device::Precision::kFp16}) {
    const auto expected = result_of(precision, std::nullopt);
    EXPECT_EQ(result_of(precision, CustomTrainStep({"loss", "mae"}, same_step)), expected);
    EXPECT_EQ(expected.second < 12, precision == device::Precision::kFp16) << expected.second;
    EXPECT_GT(expected.second, 6);
  }
}

TEST(CustomTrainStep, LogsAreExactMeansOverExamplesForAnyNumberOfReplicas) {
  CompileOptions options = usual();
  options.metrics = {};
  options.train_step =
      CustomTrainStep({"loss", "penalty", "mean"}, [](auto& step, const auto& batch) {
        const at::Tensor output = step.forward(batch.input());
        const at::Tensor penalty = output.square();  // [N, 1]
        const at::Tensor loss = step.compute_loss(batch, output) + 0.1 * penalty.squeeze(1);
        step.optimizer().minimize(loss);
        return NamedTensors({{"penalty", penalty}, {"loss", loss}, {"mean", output.mean()}});
      });
  const History one = fitted(1, options, epochs(2));
  EXPECT_EQ(one.logs.size(), 3u);
  for (const int replicas : {2, 3, 4}) {
    const History many = fitted(replicas, options, epochs(2));
    for (const auto& [name, values] : one.logs)
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
        EXPECT_NEAR(many.at(name)[epoch], values[epoch], 1e-12) << name << " " << replicas;
  }
}

TEST(CustomTrainStep, NeedsNoLossAndNoValueOfThatName) {
  CompileOptions options = {.optimizer = optim::Sgd{.learning_rate = 0.1}};
  options.train_step =
      CustomTrainStep({"error"}, [](TrainStepContext& step, const ModelBatch& batch) {
        const at::Tensor error = (step.forward(batch.input()).squeeze(1) - batch.label()).square();
        step.optimizer().minimize(error);
        return NamedTensors({{"error", error}});
      });
  FitOptions fit = epochs(8);
  std::vector<std::string> names;
  fit.callbacks = {TerminateOnNaN{}, LambdaCallback{.on_train_batch_end = [&](FitContext& context) {
                     names = context.step_values().names();
                   }}};
  const History history = fitted(2, options, fit);
  EXPECT_EQ(history.logs.size(), 1u);
  EXPECT_LT(history.at("error").back(), 0.2 * history.at("error").front());
  EXPECT_EQ(names, (std::vector<std::string>{"error"}));
  fit.validation_data = line_data(5);
  const Error error = error_from([&] { fitted(1, options, fit); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_NE(std::string(error.what()).find("validation_data"), std::string::npos) << error.what();
}

TEST(CustomTrainStep, AnInterruptedFitResumesExactly) {
  CompileOptions options = usual();
  options.train_step = CustomTrainStep({"loss", "mae", "twice"}, [](auto& step, const auto& batch) {
    const NamedTensors values = same_step(step, batch);
    return values.with("twice", values["loss"] * 2);
  });
  const History whole = fitted(2, options, epochs(3));
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "brigade_train_step";
  std::filesystem::remove_all(folder);
  FitOptions saved = epochs(3);
  saved.session.checkpoint_dir = folder;
  saved.session.save_checkpoints = {.steps = 100};
  FitOptions first = saved;
  first.session.hooks = {StopAtStepHook{.num_steps = 6}};
  EXPECT_EQ(fitted(2, options, first).epochs.size(), 1u);
  const History rest = fitted(2, options, saved);
  for (const auto& [name, values] : whole.logs) {
    ASSERT_EQ(rest.at(name).size(), 2u);
    EXPECT_EQ(rest.at(name)[0], values[1]) << name;
    EXPECT_EQ(rest.at(name)[1], values[2]) << name;
    EXPECT_NEAR(whole.at("twice")[2], 2 * whole.at("loss")[2], 1e-12);
  }
  std::filesystem::remove_all(folder);
}

TEST(CustomTrainStep, WhatItMayNotDoIsRefused) {
  const auto step_returning = [](NamedTensors values) {
    return CustomTrainStep({"loss", "mae"},
                           [values](TrainStepContext& step, const ModelBatch& batch) {
                             same_step(step, batch);
                             return values;
                           });
  };
  const auto fit_with = [](const CustomTrainStep& step) {
    return [step] {
      CompileOptions options = usual();
      options.train_step = step;
      fitted(2, options, epochs(1));
    };
  };
  struct Case {
    std::function<void()> call;
    std::string part;
  };
  const std::vector<Case> cases = {
      {fit_with(step_returning(NamedTensors({{"los", at::ones({})}}))), "returned the values los"},
      {fit_with(step_returning(NamedTensors({{"loss", at::ones({})}, {"mae", at::ones({})}}))),
       "no metrics of compile: loss"},
      {fit_with(step_returning(NamedTensors({{"loss", at::ones({4})}}))),
       "'loss' of shape [4] for 5 examples"},
      {fit_with(step_returning(NamedTensors({{"loss", at::Tensor()}}))), "'loss' undefined"},
      {fit_with(CustomTrainStep({}, same_step)), "no names"},
      {fit_with(CustomTrainStep({"loss", "loss"}, same_step)), "occurs twice"},
      {[] {
         CompileOptions options = {};
         options.train_step = CustomTrainStep({"loss"}, same_step);
         fitted(1, options, epochs(1));
       },
       "compute_loss: compile was given no loss"}};
  for (const auto& [call, part] : cases) {
    const Error error = error_from(call);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " is not in: " << error.what();
  }
}

}  // namespace
}  // namespace brigade::train
