#include "brigade/train/model/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/mnist.h"
#include "brigade/input/synthetic.h"
#include "brigade/layers/regularizers.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/callbacks/stop_callbacks.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::error_from;

FitOptions quiet(std::int64_t epochs) {
  return {.epochs = epochs, .verbose = Verbose::kSilent};
}

/// Flattens, and returns the logits of `classes`.
auto classifier(std::int64_t classes, std::int64_t hidden = 32) {
  return [=](const at::Tensor& x, variables::Mode) {
    const at::Tensor h = layers::v1::dense(x.flatten(1), hidden, {.activation = layers::relu});
    return layers::v1::dense(h, classes);
  };
}

CompileOptions classification() {
  return {.optimizer = optim::Adam{.learning_rate = 1e-2},
          .loss = Loss("sparse_categorical_crossentropy", {.from_logits = true}),
          .metrics = {"accuracy"}};
}

TEST(Model, FitLearnsAndReportsByName) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, classifier(5));
  model.compile(classification());
  const auto examples = input::synthetic(600, {20}, 5, 1);
  FitOptions options = quiet(4);
  options.validation_data = input::synthetic(100, {20}, 5, 1).batch(64);
  const History history = model.fit(examples.shuffle(600).batch(32), options);
  EXPECT_EQ(history.epochs, (std::vector<std::int64_t>{0, 1, 2, 3}));
  for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"})
    EXPECT_EQ(history.at(name).size(), 4u) << name;
  EXPECT_LT(history.at("loss").back(), history.at("loss").front());
  EXPECT_GT(history.at("val_accuracy").back(), 0.95);
  EXPECT_EQ(model.global_step(), 4 * 19);
  EXPECT_EQ(history.stop_reason, "");
  EXPECT_EQ(error_from([&] { history.at("acc"); }).code(), ErrorCode::kNotFound);
}

TEST(Model, LearnsFromASliceOfFashionMnist) {
  if (!std::filesystem::exists(input::kFashionMnistDirectory)) GTEST_SKIP() << "no data set here";
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, classifier(10, 64));
  model.compile(classification());
  const auto images = input::fashion_mnist(input::kFashionMnistDirectory);
  const History history = model.fit(images.take(500).shuffle(500).batch(25), quiet(3));
  EXPECT_GT(history.at("accuracy").back(), 0.65);
  EXPECT_GT(model.evaluate(images.skip(500).take(200).batch(64)).at("accuracy"), 0.55);
}

std::vector<std::unique_ptr<distribute::Strategy>> strategies() {
  std::vector<std::unique_ptr<distribute::Strategy>> all;
  all.push_back(std::make_unique<distribute::OneDeviceStrategy>("cpu:0"));
  all.push_back(std::make_unique<distribute::MirroredStrategy>(distribute::cpus(2)));
  all.push_back(std::make_unique<distribute::CentralStorageStrategy>(
      distribute::central_cpus(2, variables::Caching::kAlways)));
  return all;
}

// 37 examples in batches of 10: the per-replica batches are uneven, and the last batch is smaller.
TEST(Model, HasTheSameHistoryUnderEveryStrategy) {
  std::vector<History> histories;
  std::vector<at::Tensor> predictions;
  for (const auto& strategy : strategies()) {
    Model model(*strategy, line());
    model.compile({.optimizer = optim::Adam{.learning_rate = 0.1},
                   .loss = "mse",
                   .metrics = {"mae", "root_mean_squared_error"}});
    FitOptions options = quiet(3);
    options.batch_size = 10;
    options.validation_data = line_data(11);
    histories.push_back(model.fit(line_data(37), options));
    predictions.push_back(model.predict(line_data(9), {.batch_size = 4}));
  }
  for (std::size_t i = 1; i < histories.size(); ++i) {
    EXPECT_EQ(histories[i].logs.size(), 6u);
    for (const auto& [name, values] : histories[0].logs) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
        EXPECT_NEAR(histories[i].at(name)[epoch], values[epoch], 1e-10) << i << " " << name;
    }
    EXPECT_LT((predictions[i] - predictions[0]).abs().max().item<double>(), 1e-10);
  }
}

// Histories of Keras 3 (TensorFlow 2.21) for the same layer, data and batches, in float64.
TEST(Model, HistoryMatchesKeras) {
  struct Case {
    OptimizerChoice optimizer;
    double tolerance;  // Keras adds Adam's epsilon in another term
    std::map<std::string, std::vector<double>> history;
  };
  for (const auto& [optimizer, tolerance, history] : std::vector<Case>{
           {optim::Sgd{.learning_rate = 0.1},
            1e-9,
            {{"loss", {2.600373525289264, 0.9094600764093936, 0.34283532257303684}},
             {"mae", {1.3172056780615822, 0.7952473015497799, 0.4954365858159046}},
             {"val_loss", {1.088705872453285, 0.412193177808348, 0.1629522293330488}},
             {"val_mae", {0.8269928501286283, 0.5329271796493177, 0.3431118195151789}}}},
           {"adam",
            1e-6,
            {{"loss", {3.636125063974841, 3.6154291683466195, 3.594824213630898}},
             {"mae", {1.572365987925636, 1.568189650769797, 1.5640182743485065}},
             {"val_loss", {3.1411349740637506, 3.123483645326474, 3.10590407914648}},
             {"val_mae", {1.331862782097942, 1.3286459999624625, 1.3254316069505085}}}}}) {
    distribute::MirroredStrategy strategy(distribute::cpus(2));
    Model model(strategy, line());
    model.compile({.optimizer = optimizer, .loss = "mse", .metrics = {"mae"}});
    FitOptions options = quiet(3);
    options.batch_size = 10;
    options.shuffle = false;
    options.validation_data = line_data(11);
    const History seen = model.fit(line_data(37), options);
    for (const auto& [name, values] : history) {
      for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
        EXPECT_NEAR(seen.at(name)[epoch], values[epoch], tolerance) << name << " of " << epoch;
    }
  }
}

TEST(Model, EvaluateAndPredictSeeEveryExampleOnceAndInOrder) {
  for (const auto& strategy : strategies()) {
    Model model(*strategy, line());
    model.compile({.loss = "mse"});
    FitOptions options = quiet(1);
    options.batch_size = 5;
    model.fit(line_data(11), options);
    const at::Tensor x = at::arange(14, at::kDouble).view({7, 2});
    const at::Tensor y = at::arange(7, at::kDouble);
    const at::Tensor kernel = model.variables()[0].read(), bias = model.variables()[1].read();
    const at::Tensor expected = at::matmul(x, kernel.t()) + bias;
    const at::Tensor seen = model.predict(x, {.batch_size = 3});
    EXPECT_LT((seen - expected).abs().max().item<double>(), 1e-12);
    EXPECT_NEAR(model.evaluate({x, y}, {.batch_size = 3}).at("loss"),
                (expected.squeeze(1) - y).square().mean().item<double>(), 1e-10);
    EXPECT_EQ(model.predict(x, {.batch_size = 3, .steps = 2}).size(0), 6);
  }
}

/// The batches of each epoch.
class BatchCounter final : public Callback {
 public:
  void on_epoch_end(FitContext& fit) override { counts.push_back(fit.batches()); }
  std::vector<std::int64_t> counts;
};

TEST(Model, StepsPerEpochContinuesAndWarnsAtTheEndOfTheData) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  struct Case {
    std::int64_t examples, steps;
    std::vector<std::int64_t> counts;
    bool warns;
  };
  // As Keras: 10 batches, 4 per epoch.
  for (const auto& [examples, steps, counts, warns] :
       std::vector<Case>{{20, 4, {4, 4, 2, 4, 4}, true}, {16, 4, {4, 4, 4, 4, 4}, false}}) {
    Model model(strategy, line(), "m" + std::to_string(examples));
    model.compile({.loss = "mse"});
    const auto counter = std::make_shared<BatchCounter>();
    const CapturedLog log;
    FitOptions options = quiet(5);
    options.batch_size = 2;
    options.steps_per_epoch = steps;
    options.callbacks = {counter};
    model.fit(line_data(examples), options);
    EXPECT_EQ(counter->counts, counts);
    EXPECT_EQ(log.has("The data ran out in epoch 3 after 2 of 4 steps"), warns);
  }
}

TEST(Model, ADatasetOfUnknownSizeIsReadToItsEnd) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, classifier(3));
  model.compile(classification());
  const auto counter = std::make_shared<BatchCounter>();
  FitOptions options = quiet(2);
  options.callbacks = {counter};
  const auto batches = input::synthetic(50, {4}, 3).batch(8);
  const auto unknown = data::Dataset<input::LabeledBatch>(batches.repeat().take(7));
  model.fit(unknown, options);
  EXPECT_EQ(counter->counts, (std::vector<std::int64_t>{7, 7}));
}

TEST(Model, RegularizationIsPartOfTheLossOnce) {
  for (const auto& strategy : strategies()) {
    Model model(*strategy, [](const at::Tensor& x, variables::Mode) {
      return layers::v1::dense(x, 1,
                               {.kernel_initializer = variables::constant_initializer(2.0),
                                .kernel_regularizer = layers::l2_regularizer(0.5)});
    });
    model.compile({.loss = Loss([](const at::Tensor& y, const at::Tensor& p) {
                     return (p.squeeze(1) - y) * 0.0;
                   })});
    EXPECT_NEAR(model.evaluate(line_data(5), {.batch_size = 3}).at("loss"), 0.5 * 0.5 * (4.0 + 4.0),
                1e-12);
  }
}

TEST(Model, TrainsAModule) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model = Model::from_module(strategy, [] {
    auto linear = std::make_shared<torch::nn::LinearImpl>(2, 1);
    linear->to(at::kDouble);
    return linear;
  });
  model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
  const History history = model.fit(line_data(64), quiet(20));
  EXPECT_LT(history.at("loss").back(), 0.05 * history.at("loss").front());
  EXPECT_NE(model.summary().find("Total params: 3"), std::string::npos) << model.summary();
}

TEST(Model, AScheduleSetsTheRateOfEachStep) {
  struct Rates final : Callback {
    std::vector<double> seen;
    void on_train_batch_end(FitContext& fit) override { seen.push_back(fit.learning_rate()); }
  };
  const auto rates = std::make_shared<Rates>();
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  Model model(strategy, line());
  model.compile(
      {.optimizer = "sgd",
       .loss = "mse",
       .schedule = optim::StepDecay{.initial_learning_rate = 1e-2, .step_size = 2, .factor = 0.5}
                       .schedule()});
  FitOptions options = quiet(1);
  options.batch_size = 4;
  options.callbacks = {rates};
  model.fit(line_data(12), options);
  model.fit(line_data(8), options);  // steps count on
  EXPECT_EQ(rates->seen, (std::vector<double>{1e-2, 1e-2, 5e-3, 5e-3, 2.5e-3}));
}

/// A temporary directory, removed at the end of the test.
struct TemporaryDirectory {
  TemporaryDirectory() { std::filesystem::remove_all(path); }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("brigade_model_" + std::to_string(::getpid()));
};

struct Trained {
  History history;
  std::vector<at::Tensor> weights;
};

Trained train_to_the_end(const SessionOptions& session,
                         std::optional<std::int64_t> steps_per_epoch) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, line());
  model.compile(
      {.optimizer = optim::Adam{.learning_rate = 0.1}, .loss = "mse", .metrics = {"mae"}});
  FitOptions options = quiet(3);
  options.batch_size = 10;
  options.session = session;
  options.steps_per_epoch = steps_per_epoch;
  Trained trained{.history = model.fit(line_data(37), options)};
  for (const auto& variable : model.variables()) trained.weights.push_back(variable.read());
  return trained;
}

/// Three epochs, stopped after step `stop` and resumed, and three without an interruption.
void expect_exact_resumption(std::int64_t stop, std::optional<std::int64_t> steps_per_epoch) {
  const Trained whole = train_to_the_end(quiet_session(), steps_per_epoch);
  const TemporaryDirectory folder;
  SessionOptions session = quiet_session();
  session.checkpoint_dir = folder.path;
  session.save_checkpoints = {.steps = 100};
  SessionOptions first = session;
  first.hooks = {StopAtStepHook{.num_steps = stop}};
  const Trained half = train_to_the_end(first, steps_per_epoch);
  const std::int64_t steps = steps_per_epoch.value_or(4);  // 37 examples, 10 a batch
  EXPECT_EQ(half.history.epochs.size(), static_cast<std::size_t>(stop / steps));
  EXPECT_NE(half.history.stop_reason, "");
  const Trained rest = train_to_the_end(session, steps_per_epoch);
  EXPECT_EQ(rest.history.epochs.size(), 3 - half.history.epochs.size());
  for (const char* name : {"loss", "mae"})
    EXPECT_EQ(rest.history.at(name).back(), whole.history.at(name).back()) << name;
  for (std::size_t i = 0; i < whole.weights.size(); ++i)
    EXPECT_TRUE(at::equal(rest.weights[i], whole.weights[i]));
}

TEST(Model, AnInterruptedFitResumesExactly) {
  for (const std::int64_t stop : {1, 4, 6, 8, 11}) {
    SCOPED_TRACE(stop);
    expect_exact_resumption(stop, std::nullopt);
  }
}

TEST(Model, AFitByStepsResumesInTheMiddleOfTheData) {
  for (const std::int64_t stop : {1, 3, 4, 5}) {
    SCOPED_TRACE(stop);
    expect_exact_resumption(stop, 2);
  }
}

TEST(Model, UsesTheOpenScopesStrategyOrOneDevice) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  {
    const auto scope = strategy.scope();
    EXPECT_EQ(&Model(line()).strategy(), &strategy);
  }
  Model alone{line()};
  EXPECT_EQ(alone.strategy().num_replicas_in_sync(), 1);
}

TEST(Model, WarnsIfLogitsAreUsedAsProbabilities) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  const CapturedLog log;
  Model model(strategy, classifier(3));
  model.compile({.loss = "sparse_categorical_crossentropy"});
  model.fit(input::synthetic(8, {4}, 3).batch(8), quiet(1));
  EXPECT_TRUE(log.has("End the model with a softmax"));
}

TEST(Model, RefusesInvalidArgumentsWithAdvice) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model bare(strategy, line(), "bare");
  Model model(strategy, line(), "model");
  model.compile({.loss = "mse"});
  const auto fit_with = [&](auto change) {
    return [&model, change] {
      FitOptions options = quiet(1);
      change(options);
      model.fit(line_data(4), options);
    };
  };
  struct Case {
    std::function<void()> call;
    ErrorCode code;
    std::string part;
  };
  const std::vector<Case> cases = {
      {[&] { bare.fit(line_data(4)); }, ErrorCode::kFailedPrecondition, "Call compile"},
      {[&] { bare.evaluate(line_data(4)); }, ErrorCode::kFailedPrecondition, "Call compile"},
      {[&] { bare.variables(); }, ErrorCode::kFailedPrecondition, "no variables yet"},
      {[&] { bare.compile({.optimizer = "adm", .loss = "mse"}); }, ErrorCode::kInvalidArgument,
       "did you mean 'adam'?"},
      {[&] { bare.compile({.loss = "mse", .metrics = {"acuracy"}}); }, ErrorCode::kInvalidArgument,
       "did you mean 'accuracy'?"},
      {[&] {
         bare.compile({.loss = "mse", .metrics = {"mae", "mae"}});
       },
       ErrorCode::kInvalidArgument, "the name 'mae'"},
      {fit_with([](auto& o) { o.epochs = -1; }), ErrorCode::kInvalidArgument, "epochs is -1"},
      {fit_with([](auto& o) { o.batch_size = 0; }), ErrorCode::kInvalidArgument, "batch_size is 0"},
      {fit_with([](auto& o) { o.steps_per_epoch = 0; }), ErrorCode::kInvalidArgument,
       "steps_per_epoch is 0"},
      {[] {
         LabeledData(at::rand({3, 2}), at::rand({4}));
       },
       ErrorCode::kInvalidArgument, "Features [3, 2] and labels [4]"},
      {[&] {
         FitOptions options = quiet(1);
         options.batch_size = 4;
         model.fit(input::synthetic(8, {2}, 2).batch(4), options);
       },
       ErrorCode::kInvalidArgument, "batch_size is for tensors"},
      {[&] { model.fit(input::synthetic(8, {2}, 2).take(0).batch(4), quiet(1)); },
       ErrorCode::kInvalidArgument, "no batch"}};
  for (const auto& [call, code, part] : cases) {
    const Error error = error_from(call);
    EXPECT_EQ(error.code(), code) << part;
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Model, RefusesDataThatNeverEndsWithoutANumberOfSteps) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, line());
  model.compile({.loss = "mse"});
  const data::Dataset<input::LabeledBatch> batches = input::synthetic(8, {1}, 2).batch(4).repeat();
  FitOptions stopped = quiet(1);
  stopped.session.hooks = {StopAtStepHook{.num_steps = 3}};
  FitOptions validated = quiet(1);
  validated.validation_data = batches;
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { model.fit(batches, quiet(1)); }, "fit: the data never ends"},
      {[&] { model.fit(batches.take(1), validated); }, "FitOptions::validation_steps"},
      {[&] { model.evaluate(batches); }, "EvaluateOptions::steps"},
      {[&] { model.predict(batches); }, "predict: the data never ends"}};
  for (const auto& [call, part] : cases) {
    const Error error = error_from(call);
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << part;
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  model.fit(batches, stopped);
  EXPECT_EQ(model.global_step(), 3);
  EXPECT_EQ(model.predict(batches, {.steps = 2}).size(0), 8);
}

}  // namespace
}  // namespace brigade::train
