// FitOptions::steps_per_execution: the same results as one step at a time.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/callbacks/checkpoint_callbacks.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::error_from;

struct RoundsResult {
  History history;
  std::vector<at::Tensor> weights;
  std::int64_t steps = 0;
};

/// Four batches an epoch, unless `change` says otherwise.
RoundsResult fit_in_rounds(
    std::int64_t steps_per_execution,
    const std::function<void(FitOptions&)>& change = [](FitOptions&) {}) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, line());
  model.compile(
      {.optimizer = optim::Adam{.learning_rate = 0.1},
       .loss = "mse",
       .metrics = {"mae"},
       .schedule = optim::StepDecay{.initial_learning_rate = 0.1, .step_size = 2, .factor = 0.5}
                       .schedule()});
  FitOptions options{.epochs = 3,
                     .batch_size = 10,
                     .validation_data = line_data(11),
                     .verbose = Verbose::kSilent,
                     .steps_per_execution = steps_per_execution};
  change(options);
  RoundsResult result{.history = model.fit(line_data(37), options), .steps = model.global_step()};
  for (const auto& variable : model.variables()) result.weights.push_back(variable.read());
  return result;
}

void expect_same_results(const RoundsResult& some, const RoundsResult& others) {
  EXPECT_EQ(some.history.logs, others.history.logs);
  EXPECT_EQ(some.history.epochs, others.history.epochs);
  EXPECT_EQ(some.steps, others.steps);
  for (std::size_t i = 0; i < some.weights.size(); ++i)
    EXPECT_TRUE(at::equal(some.weights[i], others.weights[i]));
}

TEST(StepsPerExecution, AnyNumberGivesTheSameBits) {
  const RoundsResult one = fit_in_rounds(1);
  for (const std::int64_t steps : {2, 3, 4, 100}) {
    SCOPED_TRACE(steps);
    expect_same_results(fit_in_rounds(steps), one);
  }
}

TEST(StepsPerExecution, WorkersAndUpdatesThatAreLeftOutChangeNothing) {
  const at::Tensor i = at::arange(37, at::kFloat);
  const at::Tensor x = at::stack({(i * 0.7).sin(), (i * 1.3).cos()}, 1);
  const auto fit = [&](distribute::Strategy& strategy, std::int64_t steps) {
    strategy.set_precision(device::Precision::kFp16);
    Model model(strategy, line());
    CompileOptions compiled = {.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"};
    // Too large for the first gradients.
    compiled.optimizer_options.gradient_scaler = {.initial_scale = 1 << 18};
    model.compile(compiled);
    FitOptions options{
        .epochs = 3, .batch_size = 10, .verbose = Verbose::kSilent, .steps_per_execution = steps};
    options.session.hooks = {StopAtStepHook{.last_step = 8}};
    const History history = model.fit({x, x.sum(1) + 1}, options);
    RoundsResult result{.history = history, .steps = model.global_step()};
    for (const auto& variable : model.variables()) result.weights.push_back(variable.read());
    return result;
  };
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  const RoundsResult expected = fit(strategy, 1);
  EXPECT_EQ(expected.steps, 8);
  EXPECT_GT(expected.history.epochs.size(), 0u);
  for (const std::int64_t steps : {1, 3, 100}) {
    std::mutex mutex;
    distribute::run_workers({1, 1}, [&](distribute::MultiWorkerMirroredStrategy& worker) {
      const RoundsResult result = fit(worker, steps);
      const std::lock_guard lock(mutex);
      expect_same_results(result, expected);
    });
  }
}

TEST(StepsPerExecution, CallbacksSeeRoundsThatEndWithTheEpoch) {
  std::string calls;
  const auto record = [&](FitOptions& options) {
    options.epochs = 2;
    options.callbacks = {LambdaCallback{.on_epoch_begin = [&](FitContext&) { calls += "E"; },
                                        .on_train_batch_begin = [&](FitContext&) { calls += "("; },
                                        .on_train_batch_end =
                                            [&](FitContext& fit) {
                                              calls += std::to_string(fit.new_batches()) + ":" +
                                                       std::to_string(fit.batches()) + ")";
                                            }}};
  };
  fit_in_rounds(3, record);
  EXPECT_EQ(calls, "E(3:3)(1:4)E(3:3)(1:4)");
  calls.clear();
  fit_in_rounds(3, [&](FitOptions& options) {
    record(options);
    options.steps_per_epoch = 2;
  });
  EXPECT_EQ(calls, "E(2:2)E(2:2)");
}

TEST(StepsPerExecution, DataOfUnknownSizeEndsWhereItEndsWithOneWarning) {
  const auto with_steps = [](std::int64_t steps) {
    distribute::MirroredStrategy strategy(distribute::cpus(2));
    Model model(strategy, line());
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
    const auto batches = line_data(37).global_batches({.batch_size = 5});
    const CapturedLog log;
    const History history =
        model.fit(batches.filter([](const input::LabeledBatch&) { return true; }),
                  {.epochs = 2,
                   .steps_per_epoch = 6,
                   .verbose = Verbose::kSilent,
                   .steps_per_execution = steps});
    EXPECT_EQ(model.global_step(), 8);
    EXPECT_EQ(std::ranges::count_if(log.lines(),
                                    [](const std::string& each) {
                                      return each.find("ran out in epoch 2 after 2 of 6") !=
                                             std::string::npos;
                                    }),
              1);
    return history.logs;
  };
  EXPECT_EQ(with_steps(4), with_steps(1));
}

TEST(StepsPerExecution, AStopShortensTheRound) {
  for (const std::int64_t stop : {1, 5, 6, 8, 11}) {
    SCOPED_TRACE(stop);
    const auto stopped = [stop](FitOptions& options) {
      options.session.hooks = {StopAtStepHook{.last_step = stop}};
    };
    const RoundsResult several = fit_in_rounds(3, stopped);
    EXPECT_EQ(several.steps, stop);
    expect_same_results(several, fit_in_rounds(1, stopped));
  }
}

TEST(StepsPerExecution, ACancelledSessionStopsAfterTheStep) {
  const concurrency::CancelToken cancel;
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  int calls = 0;
  Model model(strategy, [&](const at::Tensor& x, variables::Mode) {
    if (++calls == 6) cancel.cancel();  // the first call builds the model
    return layers::v1::dense(
        x, 1, {.kernel_initializer = variables::zeros_initializer(), .name = "line"});
  });
  model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
  FitOptions options{.batch_size = 2, .verbose = Verbose::kSilent, .steps_per_execution = 100};
  options.session.cancel = cancel;
  model.fit(line_data(40), options);
  EXPECT_EQ(model.global_step(), 5);
}

TEST(StepsPerExecution, ACallbackStopsBetweenRounds) {
  const RoundsResult result = fit_in_rounds(3, [](FitOptions& options) {
    options.callbacks = {
        LambdaCallback{.on_train_batch_end = [](FitContext& fit) { fit.stop("enough"); }}};
  });
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.history.stop_reason, "enough");
}

/// A new, empty directory, removed at the end.
struct Folder {
  explicit Folder(const std::string& name)
      : path(std::filesystem::path(::testing::TempDir()) / ("brigade_rounds_" + name)) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const auto& each : std::filesystem::directory_iterator(path)) {
      const std::string name = each.path().filename();
      if (name.starts_with("ckpt-")) found.push_back(std::stoll(name.substr(5)));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::filesystem::path path;
};

TEST(StepsPerExecution, CheckpointsByStepsAreExact) {
  for (const std::int64_t steps : {1, 2, 4, 100}) {
    const Folder folder(std::to_string(steps));
    fit_in_rounds(steps, [&](FitOptions& options) {
      options.session.checkpoint_dir = folder.path;
      options.session.save_checkpoints = {.steps = 5};
      options.session.scaffold.saver.keep_last = 0;
    });
    EXPECT_EQ(folder.steps(), (std::vector<std::int64_t>{0, 5, 10, 12})) << steps;
  }
}

TEST(StepsPerExecution, AnInterruptedFitResumesExactly) {
  const RoundsResult whole = fit_in_rounds(1);
  for (const std::int64_t stop : {2, 4, 7}) {
    SCOPED_TRACE(stop);
    const Folder folder("resumed");
    const auto saving = [&](FitOptions& options) {
      options.session.checkpoint_dir = folder.path;
      options.session.save_checkpoints = {.steps = 100};
    };
    fit_in_rounds(3, [&](FitOptions& options) {
      saving(options);
      options.session.hooks = {StopAtStepHook{.num_steps = stop}};
    });
    const RoundsResult rest = fit_in_rounds(2, saving);
    for (std::size_t i = 0; i < whole.weights.size(); ++i)
      EXPECT_TRUE(at::equal(rest.weights[i], whole.weights[i]));
    EXPECT_EQ(rest.history.at("loss").back(), whole.history.at("loss").back());
    EXPECT_EQ(rest.history.at("mae").back(), whole.history.at("mae").back());
  }
}

TEST(StepsPerExecution, CallbacksThatSaveCountBatches) {
  const Folder folder("callback");
  fit_in_rounds(2, [&](FitOptions& options) {
    options.callbacks = {
        ModelCheckpoint{.directory = folder.path, .every_batches = 3, .keep_last = 0}};
  });
  EXPECT_EQ(folder.steps(), (std::vector<std::int64_t>{4, 8, 12}))
      << "after the round in which it is due, as in Keras";
}

TEST(StepsPerExecution, FewerThanOneIsRefused) {
  for (const std::int64_t bad : {0, -3}) {
    const Error error = error_from([&] { fit_in_rounds(bad); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("steps_per_execution is " + std::to_string(bad)),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace brigade::train
