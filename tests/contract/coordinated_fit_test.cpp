// Model::fit and evaluate with a chief that coordinates: one program in the chief and in workers,
// which are threads here, beside parameter servers in this process.
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/parameter_server_strategy.h"
#include "brigade/ps/testing/local_service.h"
#include "brigade/ps/testing/unused_port.h"
#include "brigade/train/evaluation/checkpoint_evaluation.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"

namespace brigade::train {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using distribute::Strategy;
using ps::ParameterServerStrategy;

constexpr std::int64_t kBatch = 10;

cluster::ClusterSpec coordinated_spec(int workers) {
  std::map<std::string, std::vector<std::string>> jobs = {
      {"chief", {base::str_cat("127.0.0.1:", ps::testing::unused_port())}},
      {"ps", {"127.0.0.1:1", "127.0.0.1:2"}}};
  for (int i = 0; i < workers; ++i) jobs["worker"].push_back(base::str_cat("127.0.0.1:", 3 + i));
  return cluster::ClusterSpec(jobs);
}

class CoordinatedJob {
 public:
  explicit CoordinatedJob(int workers)
      : spec_(coordinated_spec(workers)),
        servers_({.servers = 2, .tasks = spec_.training_tasks()}) {}

  std::unique_ptr<ParameterServerStrategy> join(
      const std::string& job, int index,
      const concurrency::CancelToken& cancel = concurrency::CancelToken()) {
    const cluster::ClusterConfig config{
        .cluster = spec_,
        .task = {.job = job, .index = index},
        .rank = job == "chief" ? 0 : index + 1,
        .world_size = static_cast<int>(spec_.training_tasks().size()),
        .source = "this test"};
    ps::ParameterServerOptions options{.devices = {"cpu:0"},
                                       .allow_oversubscription = true,
                                       .chief = ps::ChiefRole::kCoordinates,
                                       .server_timeout = std::chrono::seconds(60),
                                       .key = std::nullopt,
                                       .cancel = cancel};
    return std::make_unique<ParameterServerStrategy>(config, servers_.connect(), options);
  }
  std::unique_ptr<ParameterServerStrategy> chief() { return join("chief", 0); }

  /// Runs `program` with a worker's strategy in a thread.
  template <class Program>
  auto start_worker(int index, Program program,
                    const concurrency::CancelToken& cancel = concurrency::CancelToken()) {
    return concurrency::testing::start([this, index, program, cancel] {
      const auto strategy = join("worker", index, cancel);
      return program(*strategy);
    });
  }

  std::int64_t steps_of_servers() { return servers_[0].core().status().step; }

 private:
  const cluster::ClusterSpec spec_;
  ps::testing::LocalServers servers_;
};

struct PointsOfALine {
  at::Tensor x, y;
};
PointsOfALine points(std::int64_t count) {
  const at::Tensor i = at::arange(count, at::kDouble);
  const at::Tensor x = at::stack({(i * 0.7).sin(), (i * 1.3).cos()}, 1);
  return {.x = x, .y = x.select(1, 0) - 2 * x.select(1, 1) + 1};
}
LabeledData data_of_line(std::int64_t count) {
  const PointsOfALine all = points(count);
  return {all.x, all.y};
}

Model compiled_line(Strategy& strategy) {
  Model model(strategy, [](const at::Tensor& x, variables::Mode) {
    return layers::v1::dense(
        x, 1, {.kernel_initializer = variables::zeros_initializer(), .name = "line"});
  });
  model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05},
                 .loss = "mse",
                 .metrics = {"mae", "root_mean_squared_error"}});
  return model;
}

FitOptions epochs_of(std::int64_t epochs, std::int64_t steps) {
  return {.epochs = epochs,
          .batch_size = kBatch,
          .shuffle = false,
          .steps_per_epoch = steps,
          .verbose = Verbose::kSilent};
}

/// What a task's program ends with.
struct Results {
  std::vector<History> histories = {};
  Logs evaluated = {};
};

/// The mean squared error of the model in this process.
double local_loss(Model& model, std::int64_t count) {
  const PointsOfALine all = points(count);
  return (model.predict(all.x).squeeze(1) - all.y).square().mean().item<double>();
}

void expect_same(const Results& some, const Results& others) {
  EXPECT_EQ(some.evaluated, others.evaluated);
  ASSERT_EQ(some.histories.size(), others.histories.size());
  for (std::size_t i = 0; i < some.histories.size(); ++i) {
    EXPECT_EQ(some.histories[i].epochs, others.histories[i].epochs);
    EXPECT_EQ(some.histories[i].logs, others.histories[i].logs);
    EXPECT_EQ(some.histories[i].stop_reason, others.histories[i].stop_reason);
  }
}

TEST(CoordinatedFit, OneWorkerHasTheHistoryOfOneDevice) {
  const auto program = [](Strategy& strategy) {
    Model model = compiled_line(strategy);
    FitOptions options = epochs_of(3, 4);
    options.validation_data = data_of_line(23);
    Results results{.histories = {model.fit(data_of_line(40), options)}};
    results.evaluated = model.evaluate(data_of_line(17), {.batch_size = 5});
    return results;
  };
  distribute::OneDeviceStrategy one_device("cpu:0");
  const Results expected = program(one_device);
  CoordinatedJob job(1);
  std::future<Results> worker = job.start_worker(0, program);
  const Results chief = program(*job.chief());
  expect_same(result_of(worker), chief);
  EXPECT_EQ(job.steps_of_servers(), 12);
  EXPECT_EQ(chief.histories[0].epochs, expected.histories[0].epochs);
  ASSERT_EQ(chief.histories[0].logs.size(), 6u);
  for (const auto& [name, values] : expected.histories[0].logs)
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
      EXPECT_NEAR(chief.histories[0].at(name)[epoch], values[epoch], 1e-9) << name << " " << epoch;
  for (const auto& [name, value] : expected.evaluated)
    EXPECT_NEAR(chief.evaluated.at(name), value, 1e-9) << name;
}

/// Two linear outputs.
Model two_heads(Strategy& strategy) {
  return Model(strategy, [](const at::Tensor& x, variables::Mode) {
    const auto head = [&x](const char* name) {
      return layers::v1::dense(
          x, 1, {.kernel_initializer = variables::zeros_initializer(), .name = name});
    };
    return input::NamedTensors({{"main", head("main")}, {"aux", head("aux")}});
  });
}

/// Runs `program`, which returns Results, with one worker and on one device.
template <class Program>
void expect_as_one_device(const Program& program, std::size_t logs) {
  distribute::OneDeviceStrategy one_device("cpu:0");
  const Results expected = program(one_device);
  CoordinatedJob job(1);
  std::future<Results> worker = job.start_worker(0, program);
  const Results chief = program(*job.chief());
  expect_same(result_of(worker), chief);
  ASSERT_EQ(chief.histories[0].logs.size(), logs);
  for (const auto& [name, values] : expected.histories[0].logs)
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
      EXPECT_NEAR(chief.histories[0].at(name)[epoch], values[epoch], 1e-9) << name << " " << epoch;
  for (const auto& [name, value] : expected.evaluated)
    EXPECT_NEAR(chief.evaluated.at(name), value, 1e-9) << name;
}

TEST(CoordinatedFit, SeveralLossesAndWeightsAreThoseOfOneDevice) {
  const auto program = [](Strategy& strategy) {
    Model model = two_heads(strategy);
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05},
                   .losses = {{"main", "mse"}, {"aux", "mae"}},
                   .loss_weights = {{"aux", 0.4}},
                   .output_metrics = {{"main", {"mae"}}},
                   .output_weighted_metrics = {{"main", {"mae"}}}});
    const PointsOfALine all = points(40);
    const at::Tensor weights = at::arange(40, at::kDouble).remainder(3);
    FitOptions options = epochs_of(2, 4);
    options.validation_data = data_of_line(23);
    options.steps_per_execution = 3;
    std::vector<std::string> names;
    std::int64_t rounds = 0;
    options.callbacks = {LambdaCallback{.on_train_batch_end = [&](FitContext& fit) {
      names = fit.step_values().names();
      ++rounds;
    }}};
    Results results{.histories = {model.fit({all.x, all.y, weights}, options)}};
    results.evaluated = model.evaluate({all.x, all.y, weights}, {.batch_size = 5});
    if (!strategy.coordination() || strategy.coordination()->is_coordinator()) {
      EXPECT_EQ(rounds, 4);
      EXPECT_EQ(names.size(), 3u);
    }
    return results;
  };
  expect_as_one_device(program, 10);
}

TEST(CoordinatedFit, AStepOfTheProgramsOwnAndClassWeightsAreThoseOfOneDevice) {
  const auto program = [](Strategy& strategy) {
    Model model = two_heads(strategy);
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05},
                   .losses = {{"main", "mse"}},
                   .train_step = CustomTrainStep(
                       {"twice"}, [](TrainStepContext& step, const ModelBatch& batch) {
                         const input::NamedTensors outputs = step.forward(batch.inputs);
                         const at::Tensor loss = 2 * step.compute_loss(batch, outputs);
                         step.optimizer().minimize(loss);
                         return input::NamedTensors({{"twice", loss}});
                       })});
    FitOptions options = epochs_of(2, 4);
    options.class_weight = {{0, 0.5}, {1, 3.0}};
    Results results{.histories = {model.fit(data_of_line(40), options)}};
    results.evaluated = model.evaluate(data_of_line(17), {.batch_size = 5});
    return results;
  };
  expect_as_one_device(program, 1);
}

TEST(CoordinatedFit, RoundsOfStepsEndWhereTheFitStops) {
  const auto program = [](Strategy& strategy) {
    FitOptions options = epochs_of(1, 40);
    options.steps_per_execution = 6;
    if (strategy.is_chief()) options.session.hooks = {StopAtStepHook{.last_step = 8}};
    return compiled_line(strategy).fit(data_of_line(80), options).stop_reason;
  };
  CoordinatedJob job(1);
  auto worker = job.start_worker(0, program);
  EXPECT_NE(program(*job.chief()), "");
  EXPECT_NE(result_of(worker), "");
  EXPECT_GE(job.steps_of_servers(), 8);
  EXPECT_LE(job.steps_of_servers(), 12) << "four that were scheduled may have been made";
}

TEST(CoordinatedFit, ALaterInitialEpochHasOtherShuffles) {
  const auto losses_from = [](std::int64_t initial_epoch) {
    const auto program = [initial_epoch](Strategy& strategy) {
      FitOptions options = epochs_of(initial_epoch + 1, 4);
      options.initial_epoch = initial_epoch;
      options.shuffle = true;
      return compiled_line(strategy).fit(data_of_line(40), options).at("loss");
    };
    CoordinatedJob job(1);
    auto worker = job.start_worker(0, program);
    const std::vector<double> losses = program(*job.chief());
    EXPECT_EQ(result_of(worker), losses);
    return losses;
  };
  EXPECT_EQ(losses_from(0), losses_from(0));
  EXPECT_NE(losses_from(0), losses_from(1));
}

TEST(CoordinatedFit, WorkersShareStepsAndEvaluations) {
  std::vector<std::int64_t> batches;  // of the chief's callbacks
  double loss_of_chief = 0;
  std::int64_t step_of_chief = 0;
  const auto program = [&](Strategy& strategy) {
    Model model = compiled_line(strategy);
    FitOptions options = epochs_of(2, 25);
    options.callbacks = {LambdaCallback{
        .on_train_batch_end = [&](FitContext& fit) { batches.push_back(fit.batches()); }}};
    Results results{.histories = {model.fit(data_of_line(80), options)}};
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    EXPECT_EQ(strategy.is_chief(), strategy.coordination()->is_coordinator());
    if (strategy.is_chief()) {
      loss_of_chief = local_loss(model, 37);
      step_of_chief = model.global_step();
    }
    return results;
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_EQ(job.steps_of_servers(), 50);
  EXPECT_EQ(step_of_chief, 50);
  EXPECT_EQ(batches.size(), 50u);
  EXPECT_EQ(batches.back(), 25);
  EXPECT_LT(chief.histories[0].at("loss").back(), chief.histories[0].at("loss").front());
  EXPECT_NEAR(chief.evaluated.at("loss"), loss_of_chief, 1e-12) << "each example counts once";
}

TEST(CoordinatedFit, ALostWorkerCostsNoStepAndNoExample) {
  const concurrency::CancelToken kill;
  double loss_of_chief = 0;
  const auto program = [&](Strategy& strategy) {
    Model model = compiled_line(strategy);
    FitOptions options = epochs_of(2, 20);
    options.callbacks = {LambdaCallback{.on_train_batch_end = [&](FitContext& fit) {
      if (fit.epoch() == 0 && fit.batches() == 8) kill.cancel();
    }}};
    Results results{.histories = {model.fit(data_of_line(80), options)}};
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    if (strategy.is_chief()) loss_of_chief = local_loss(model, 37);
    return results;
  };
  CoordinatedJob job(2);
  std::future<Results> worker = job.start_worker(0, program);
  auto lost = concurrency::testing::start([&] {
    return code_of([&] {
      const auto strategy = job.join("worker", 1, kill);
      compiled_line(*strategy).fit(data_of_line(80), epochs_of(2, 20));
    });
  });
  const Results chief = program(*job.chief());
  expect_same(result_of(worker), chief);
  EXPECT_EQ(result_of(lost), ErrorCode::kCancelled);
  EXPECT_EQ(chief.histories[0].epochs, (std::vector<std::int64_t>{0, 1}));
  // A step that was lost after its push was made again.
  EXPECT_GE(job.steps_of_servers(), 40);
  EXPECT_LE(job.steps_of_servers(), 41);
  EXPECT_NEAR(chief.evaluated.at("loss"), loss_of_chief, 1e-12);
}

TEST(CoordinatedFit, AStopDropsTheStepsThatWait) {
  double loss_of_chief = 0;
  std::int64_t batches = 0;
  const auto program = [&](Strategy& strategy) {
    Model model = compiled_line(strategy);
    FitOptions options = epochs_of(3, 50);
    options.callbacks = {LambdaCallback{.on_train_batch_end = [&](FitContext& fit) {
      batches = fit.batches();
      if (batches == 7) fit.stop("enough");
    }}};
    Results results{.histories = {model.fit(data_of_line(80), options)}};
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    if (strategy.is_chief()) loss_of_chief = local_loss(model, 37);
    return results;
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_EQ(chief.histories[0].stop_reason, "enough");
  EXPECT_EQ(chief.histories[0].epochs, (std::vector<std::int64_t>{0}));
  EXPECT_EQ(batches, 7);
  EXPECT_GE(job.steps_of_servers(), 7);
  EXPECT_LE(job.steps_of_servers(), 15) << "four for each worker were scheduled";
  EXPECT_NEAR(chief.evaluated.at("loss"), loss_of_chief, 1e-12) << "no step came after the fit";
}

TEST(CoordinatedFit, WorkersContinueWithAChiefThatIsStartedAgain) {
  bool is_killed = true;  // of the chief's thread
  const auto program = [&](Strategy& strategy) {
    Model model = compiled_line(strategy);
    FitOptions options = epochs_of(1, 20);
    options.callbacks = {LambdaCallback{.on_train_batch_end = [&](FitContext& fit) {
      if (is_killed && fit.batches() == 5) throw Error(ErrorCode::kDataLoss, "The chief ends.");
    }}};
    Results results{.histories = {model.fit(data_of_line(80), options)}};
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    return results;
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  EXPECT_EQ(code_of([&] { program(*job.chief()); }), ErrorCode::kDataLoss);
  is_killed = false;
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_EQ(chief.histories[0].epochs, (std::vector<std::int64_t>{0}));
  EXPECT_GE(job.steps_of_servers(), 25) << "the model stays";
}

TEST(CoordinatedFit, ALateWorkerGetsTheResultsOfWhatItHasMissed) {
  const auto program = [](Strategy& strategy) {
    Model model = compiled_line(strategy);
    Results results;
    for (int fit = 0; fit < 2; ++fit)
      results.histories.push_back(model.fit(data_of_line(80), epochs_of(1, 10)));
    return results;
  };
  CoordinatedJob job(2);
  std::future<Results> early = job.start_worker(0, program), late;
  const auto strategy = job.chief();
  Model model = compiled_line(*strategy);
  Results chief;
  chief.histories.push_back(model.fit(data_of_line(80), epochs_of(1, 10)));
  late = job.start_worker(1, program);
  chief.histories.push_back(model.fit(data_of_line(80), epochs_of(1, 10)));
  expect_same(result_of(early), chief);
  expect_same(result_of(late), chief);
}

TEST(CoordinatedFit, AnErrorOfAWorkerIsTheChiefs) {
  CoordinatedJob job(1);
  auto worker = job.start_worker(0, [](Strategy& strategy) {
    Model model(strategy, [](const at::Tensor& x, variables::Mode) -> at::Tensor {
      if (x.size(0) == kBatch) throw Error(ErrorCode::kOutOfRange, "A full batch.");
      return layers::v1::dense(
          x, 1, {.kernel_initializer = variables::zeros_initializer(), .name = "line"});
    });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05}, .loss = "mse"});
    return model.fit(data_of_line(80), epochs_of(1, 10)).stop_reason;
  });
  {
    const auto strategy = job.chief();
    Model model = compiled_line(*strategy);
    EXPECT_EQ(code_of([&] { model.fit(data_of_line(80), epochs_of(1, 10)); }),
              ErrorCode::kOutOfRange);
    EXPECT_EQ(
        code_of([&] {
          model.evaluate(
              data::Dataset<input::LabeledBatch>(data_of_line(80).global_batches({})).repeat());
        }),
        ErrorCode::kInvalidArgument)
        << "it never ends";
    EXPECT_EQ(code_of([&] { model.fit(data_of_line(80), {.verbose = Verbose::kSilent}); }),
              ErrorCode::kInvalidArgument)
        << "without steps_per_epoch";
  }
  EXPECT_EQ(result_of(worker), "the chief has ended");
}

TEST(CoordinatedFit, AFitAfterOneThatHasFailedIsAsAnyOther) {
  std::atomic<bool> fails = true;
  const auto program = [&](Strategy& strategy) {
    Model model(strategy, [&](const at::Tensor& x, variables::Mode) -> at::Tensor {
      if (fails && x.size(0) > 2) throw Error(ErrorCode::kOutOfRange, "More than to build with.");
      return layers::v1::dense(
          x, 1, {.kernel_initializer = variables::zeros_initializer(), .name = "line"});
    });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05}, .loss = "mse"});
    const ErrorCode failed = code_of([&] { model.fit(data_of_line(80), epochs_of(1, 10)); });
    EXPECT_EQ(failed, strategy.is_chief() ? ErrorCode::kOutOfRange : ErrorCode::kAborted);
    if (strategy.is_chief()) fails = false;
    return Results{.histories = {model.fit(data_of_line(80), epochs_of(1, 10))},
                   .evaluated = model.evaluate(data_of_line(37), {.batch_size = 4})};
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_EQ(chief.histories[0].epochs, (std::vector<std::int64_t>{0}));
  EXPECT_GE(job.steps_of_servers(), 10);
  EXPECT_LE(job.steps_of_servers(), 11) << "the other worker may have run one meanwhile";
}

struct NormalizedLine : torch::nn::Module {
  NormalizedLine() {
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    line = register_module("line", torch::nn::Linear(2, 1));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return line(norm(x)); }
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Linear line = nullptr;
};

TEST(CoordinatedFit, StatisticsOfBatchNormComeFromAWorkerAndAreEvaluatedWith) {
  double loss_of_chief = 0;
  double mean_of_chief = 0;
  const auto program = [&](Strategy& strategy) {
    Model model = Model::from_module(strategy, [] { return std::make_shared<NormalizedLine>(); });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05}, .loss = "mse"});
    Results results{.histories = {model.fit(data_of_line(80), epochs_of(1, 12))}};
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    if (strategy.is_chief()) {
      loss_of_chief = local_loss(model, 37);
      for (const auto& each : model.variables())
        if (each.name().ends_with("running_mean"))
          mean_of_chief = each.read().abs().sum().item<double>();
    }
    return results;
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_GT(mean_of_chief, 0);
  EXPECT_NEAR(chief.evaluated.at("loss"), loss_of_chief, 1e-9);
}

TEST(CoordinatedFit, AFitThatStopsWithinAnEpochLeavesTheLastStepsValuesInTheChief) {
  double loss_of_chief = 0;
  double mean_of_chief = 0;
  const auto program = [&](Strategy& strategy) {
    Model model = Model::from_module(strategy, [] { return std::make_shared<NormalizedLine>(); });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.05}, .loss = "mse"});
    FitOptions options = epochs_of(1, 50);
    options.session.hooks = {StopAtStepHook{.last_step = 7}};
    Results results{.histories = {model.fit(data_of_line(80), options)}};
    if (strategy.is_chief()) {
      loss_of_chief = local_loss(model, 37);
      for (const auto& each : model.variables())
        if (each.name().ends_with("running_mean"))
          mean_of_chief = each.read().abs().sum().item<double>();
    }
    results.evaluated = model.evaluate(data_of_line(37), {.batch_size = 4});
    return results;
  };
  CoordinatedJob job(2);
  std::vector<std::future<Results>> workers;
  for (const int index : {0, 1}) workers.push_back(job.start_worker(index, program));
  const Results chief = program(*job.chief());
  for (auto& worker : workers) expect_same(result_of(worker), chief);
  EXPECT_TRUE(chief.histories[0].epochs.empty());
  EXPECT_LT(job.steps_of_servers(), 50);
  EXPECT_GT(mean_of_chief, 0);
  EXPECT_NEAR(chief.evaluated.at("loss"), loss_of_chief, 1e-9);
}

TEST(CoordinatedFit, AChiefThatIsAskedToStopDoesNotWaitForItsValidation) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      base::str_cat("cancelled_validation_", std::to_string(ps::testing::unused_port()));
  const concurrency::CancelToken kill, stop, give_up;
  double loss_of_training = 0;
  const auto options_of = [&](const concurrency::CancelToken& cancel) {
    FitOptions options = epochs_of(1, 10);
    options.validation_data = data_of_line(23);
    options.session.checkpoint_dir = folder.string();
    options.session.save_checkpoints = {.steps = 1000};
    options.session.cancel = cancel;
    return options;
  };
  CoordinatedJob job(1);
  const auto fit = [&](Strategy& strategy, const FitOptions& options) {
    return compiled_line(strategy).fit(data_of_line(80), options);
  };
  std::future<ErrorCode> lost = concurrency::testing::start(
      [&] { return code_of([&] { fit(*job.join("worker", 0, kill), options_of({})); }); });
  auto interrupted = concurrency::testing::start([&] {
    FitOptions options = options_of(stop);
    options.callbacks = {LambdaCallback{.on_test_begin = [&](FitContext& context) {
      loss_of_training = context.logs().at("loss");
      kill.cancel();  // nobody validates any longer
      EXPECT_EQ(result_of(lost), ErrorCode::kCancelled);
      stop.cancel();
    }}};
    return fit(*job.join("chief", 0, give_up), options);
  });
  EXPECT_EQ(interrupted.wait_for(kLong), std::future_status::ready);
  give_up.cancel();
  const History history = result_of(interrupted);
  EXPECT_TRUE(history.epochs.empty());
  EXPECT_EQ(history.stop_reason, "the session was asked to stop");

  auto worker =
      job.start_worker(0, [&](Strategy& strategy) { return fit(strategy, options_of({})); });
  const History resumed = fit(*job.chief(), options_of({}));
  EXPECT_EQ(result_of(worker).logs, resumed.logs);
  EXPECT_EQ(resumed.epochs, (std::vector<std::int64_t>{0})) << "it ends the epoch";
  EXPECT_EQ(job.steps_of_servers(), 10);
  EXPECT_NEAR(resumed.at("loss").at(0), loss_of_training, 1e-12);
  EXPECT_GT(resumed.at("val_loss").at(0), 0);
  std::filesystem::remove_all(folder);
}

TEST(CoordinatedFit, AnEvaluatorEvaluatesTheChiefsCheckpointsMeanwhile) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      base::str_cat("coordinated_fit_", std::to_string(ps::testing::unused_port()));
  std::atomic<bool> is_over = false;
  std::promise<void> has_evaluated;
  auto evaluator = concurrency::testing::start([&] {
    distribute::OneDeviceStrategy strategy("cpu:0");
    Model model = compiled_line(strategy);
    model.evaluate(data_of_line(37));  // creates the variables
    TrainingState state(strategy);
    state.add_variables(model.variables());
    std::map<std::int64_t, double> losses;
    evaluation_loop(
        state, folder.string(),
        {.final_values =
             [&] {
               StepValues values;
               values.set("loss", model.evaluate(data_of_line(37)).at("loss"));
               return values;
             }},
        {.interval = std::chrono::milliseconds(0),
         .timeout = std::chrono::milliseconds(200),
         .timeout_fn = [&] { return is_over ? AfterTimeout::kEnd : AfterTimeout::kKeepWaiting; },
         .poll = std::chrono::milliseconds(10),
         .on_evaluated =
             [&](const EvaluationReport& each) {
               if (losses.empty()) has_evaluated.set_value();
               losses[each.step] = each.results.at("loss");
             }});
    return losses;
  });

  const auto fit = [](Strategy& strategy, const FitOptions& options) {
    Model model = compiled_line(strategy);
    model.fit(data_of_line(80), options);
    return model.evaluate(data_of_line(37)).at("loss");
  };
  CoordinatedJob job(2);
  std::vector<std::future<double>> workers;
  for (const int index : {0, 1})
    workers.push_back(job.start_worker(
        index, [&](Strategy& strategy) { return fit(strategy, epochs_of(2, 15)); }));
  FitOptions chiefs = epochs_of(2, 15);
  chiefs.session.checkpoint_dir = folder.string();
  chiefs.session.save_checkpoints = {.steps = 5};
  chiefs.callbacks = {LambdaCallback{.on_epoch_end = [&](FitContext& context) {
    if (context.epoch() > 0) return;  // an evaluation takes place during the training
    EXPECT_EQ(has_evaluated.get_future().wait_for(kLong), std::future_status::ready);
  }}};
  const double loss = fit(*job.chief(), chiefs);
  is_over = true;
  const std::map<std::int64_t, double> evaluated = result_of(evaluator);
  for (auto& worker : workers) EXPECT_EQ(result_of(worker), loss);
  ASSERT_TRUE(evaluated.contains(30));
  EXPECT_NEAR(evaluated.at(30), loss, 1e-12);
  EXPECT_LE(evaluated.begin()->first, 15);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace brigade::train
