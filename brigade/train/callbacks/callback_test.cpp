#include "brigade/train/callbacks/callback.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/optim/schedule.h"
#include "brigade/summary/event_file_reader.h"
#include "brigade/train/callbacks/checkpoint_callbacks.h"
#include "brigade/train/callbacks/learning_rate_callbacks.h"
#include "brigade/train/callbacks/logging_callbacks.h"
#include "brigade/train/callbacks/stop_callbacks.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

const Values kFalling = {5, 4, 4.05, 4.1, 3, 3.5, 3.6, 3.7, 2, 2.5, 2.6, 2.7};
const Values kFlat(12, 1.0);
const Values kSlow = {3, 2.95, 2.9, 2.85, 2.8, 2.75, 2.7, 2.65, 2.6, 2.55, 2.5, 2.45};
const Values kNaNFirst = {kNaN, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// A temporary directory, removed at the end of the test.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("brigade_callback_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The numbers of epochs that Keras 3 (TensorFlow 2.21) trained with the same values of the metric.
TEST(EarlyStopping, StopsAtTheSameEpochAsKeras) {
  const EarlyStopping none{}, two{.patience = 2}, delta{.min_delta = 0.1, .patience = 3},
      baseline{.patience = 2, .baseline = 2.5}, late{.patience = 1, .start_from_epoch = 4};
  struct Case {
    const Values& values;
    const EarlyStopping& options;
    std::size_t epochs;
  };
  for (const auto& [values, options, epochs] : std::vector<Case>{{kFalling, none, 3},
                                                                 {kFalling, two, 4},
                                                                 {kFalling, delta, 8},
                                                                 {kFalling, baseline, 3},
                                                                 {kFalling, late, 6},
                                                                 {kFlat, none, 2},
                                                                 {kFlat, two, 3},
                                                                 {kFlat, delta, 4},
                                                                 {kFlat, baseline, 3},
                                                                 {kFlat, late, 6},
                                                                 {kSlow, none, 12},
                                                                 {kSlow, delta, 12},
                                                                 {kSlow, baseline, 12},
                                                                 {kSlow, late, 12},
                                                                 {kNaNFirst, none, 2},
                                                                 {kNaNFirst, two, 3},
                                                                 {kNaNFirst, baseline, 2},
                                                                 {kNaNFirst, late, 6}}) {
    const History history = ScriptedFit("val_loss", values).run({options});
    EXPECT_EQ(history.epochs.size(), epochs)
        << "patience " << options.patience << " from " << values[0];
    EXPECT_EQ(history.stop_reason.empty(), epochs == 12);
  }
}

TEST(EarlyStopping, HigherIsBetterForAccuracies) {
  const History history = ScriptedFit("val_accuracy", {.1, .3, .2, .25, .5, .4, .4, .6})
                              .run({EarlyStopping{.monitor = "val_accuracy", .patience = 2}});
  EXPECT_EQ(history.epochs.size(), 4u);
}

// Interrupted after each epoch and resumed from the checkpoint, with new callbacks.
TEST(EarlyStopping, KeepsItsPatienceAfterARestart) {
  for (const std::int64_t stop : {1, 2, 3, 4}) {
    const Folder folder;
    SessionOptions session = quiet_session();
    session.checkpoint_dir = folder.path();
    session.save_checkpoints = {.steps = 100};
    const EarlyStopping options{.patience = 3, .restore_best_weights = true};
    const Values values = {3, 1, 2, 2, 2, 2, 2};
    ScriptedFit whole("val_loss", values);
    whole.run({options});
    SessionOptions first = session;
    first.hooks = {StopAtStepHook{.num_steps = stop}};
    ScriptedFit("val_loss", values).run({options}, first);
    ScriptedFit rest("val_loss", values);
    EXPECT_EQ(rest.run({options}, session).epochs.back(), 4) << stop;
    EXPECT_TRUE(at::equal(rest.model().variables()[0].read(), whole.model().variables()[0].read()))
        << stop;
  }
}

TEST(EarlyStopping, RestoresTheWeightsOfTheBestEpoch) {
  ScriptedFit kept("val_loss", {3, 1, 2, 2, 2});
  kept.run({EarlyStopping{.patience = 2, .restore_best_weights = true}});
  ScriptedFit until_best("val_loss", {3, 1});
  until_best.run({});
  ScriptedFit stopped("val_loss", {3, 1, 2, 2, 2});
  stopped.run({EarlyStopping{.patience = 2}});
  const auto weights = [](ScriptedFit& fit) { return fit.model().variables()[0].read(); };
  EXPECT_TRUE(at::equal(weights(kept), weights(until_best)));
  EXPECT_FALSE(at::equal(weights(kept), weights(stopped)));
}

// The rates of Keras 3 (TensorFlow 2.21) after each epoch with the same values of the metric, in
// float32.
TEST(ReduceLROnPlateau, RatesMatchKeras) {
  const ReduceLROnPlateau two{.patience = 2}, cooldown{.factor = 0.5, .patience = 2, .cooldown = 2},
      floor{.factor = 0.5, .patience = 1, .min_delta = 0.1, .min_lr = 0.1};
  struct Case {
    const Values& values;
    const ReduceLROnPlateau& options;
    Values rates;
  };
  const double r = 0.5;
  for (const auto& [values, options, rates] : std::vector<Case>{
           {kFalling, two, {r, r, r, .05, .05, .05, 5e-3, 5e-3, 5e-3, 5e-3, 5e-4, 5e-4}},
           {kFalling, cooldown, {r, r, r, .25, .25, .25, .125, .125, .125, .125, .0625, .0625}},
           {kFalling, floor, {r, r, .25, .125, .125, .1, .1, .1, .1, .1, .1, .1}},
           {kFlat, two, {r, r, .05, .05, 5e-3, 5e-3, 5e-4, 5e-4, 5e-5, 5e-5, 5e-6, 5e-6}},
           {kFlat, cooldown, {r, r, .25, .25, .25, .125, .125, .125, .0625, .0625, .0625, .03125}},
           {kSlow, floor, {r, .25, .125, .125, .1, .1, .1, .1, .1, .1, .1, .1}}}) {
    // The log is written before the rate changes, so the next epoch's log has the rate of Keras's
    // optimizer after this epoch.
    Values longer = values;
    longer.push_back(values.back());
    const History history = ScriptedFit("val_loss", longer).run({options});
    const auto& seen = history.at("learning_rate");
    for (std::size_t epoch = 0; epoch < rates.size(); ++epoch)
      EXPECT_NEAR(seen[epoch + 1], rates[epoch], 1e-6 * rates[epoch]) << "epoch " << epoch;
  }
}

TEST(LearningRateScheduler, SetsTheRateOfEachEpochAndLogsIt) {
  const auto halve = [](std::int64_t epoch, double rate) { return epoch < 2 ? rate : rate / 2; };
  EXPECT_EQ(ScriptedFit("x", Values(5)).run({LearningRateScheduler{halve}}).at("learning_rate"),
            (Values{0.5, 0.5, 0.25, 0.125, 0.0625}));
  const auto steps = optim::StepDecay{.initial_learning_rate = 1.0, .step_size = 2, .factor = 0.5};
  EXPECT_EQ(ScriptedFit("x", Values(5))
                .run({LearningRateScheduler::of(steps.schedule())})
                .at("learning_rate"),
            (Values{1.0, 1.0, 0.5, 0.5, 0.25}));
}

TEST(CsvLogger, WritesOneLinePerEpochAndAppends) {
  const Folder folder;
  const auto path = folder.path() / "log.csv";
  const auto lines = [&] {
    std::vector<std::string> all;
    std::istringstream text(text_of(path));
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  };
  const History history = ScriptedFit("val_loss", {0.5, 0.25}).run({CsvLogger{.path = path}});
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[0], "epoch,loss,val_loss");
  EXPECT_EQ(lines()[2].substr(0, 2), "1,");
  EXPECT_EQ(lines()[2].substr(lines()[2].rfind(',')), ",0.25");
  EXPECT_DOUBLE_EQ(std::stod(lines()[1].substr(2)), history.at("loss")[0]);
  ScriptedFit("val_loss", {0.5}).run({CsvLogger{.path = path, .append = true}});
  EXPECT_EQ(lines().size(), 4u);
  ScriptedFit("x", {7}).run({CsvLogger{.path = path, .separator = ";"}});
  EXPECT_EQ(lines()[0], "epoch;loss;x;val_loss;val_x");
  EXPECT_EQ(lines()[1].substr(lines()[1].find(";7")), ";7;NA;NA");
}

TEST(CsvLogger, ErrorNamesTheFile) {
  const auto path = std::filesystem::path("/nonexistent/folder/log.csv");
  EXPECT_NE(std::string(distribute::error_from([&] {
                          ScriptedFit("x", {1}).run({CsvLogger{.path = path}});
                        }).what())
                .find("/nonexistent/folder/log.csv"),
            std::string::npos);
}

std::vector<std::int64_t> saved_steps(const std::filesystem::path& directory) {
  std::vector<std::int64_t> steps;
  for (const auto& path : checkpoint::checkpoint_paths(*io::posix_file_system(), directory))
    steps.push_back(checkpoint::Checkpoint::open(io::posix_file_system(), path).step());
  return steps;
}

TEST(ModelCheckpoint, SavesEveryEpochTheBestOrEveryNBatches) {
  const Values values = {3, 4, 2, 2, 1};
  struct Case {
    ModelCheckpoint options;
    std::vector<std::int64_t> steps;  // one step an epoch
  };
  for (const auto& [given, steps] :
       std::vector<Case>{{{.keep_last = 0}, {1, 2, 3, 4, 5}},
                         {{.keep_last = 2}, {4, 5}},
                         {{.save_best_only = true}, {1, 3, 5}},
                         {{.save_best_only = true, .initial_value_threshold = 2.5}, {3, 5}},
                         {{.save_best_only = true, .mode = MonitorMode::kMax}, {1, 2}},
                         {{.every_batches = 2}, {2, 4}}}) {
    const Folder folder;
    ModelCheckpoint options = given;
    options.directory = folder.path() / "checkpoints";
    ScriptedFit("val_loss", values).run({options});
    EXPECT_EQ(saved_steps(options.directory), steps);
  }
}

TEST(ModelCheckpoint, ContainsWeightsOptimizerAndMetrics) {
  const Folder folder;
  ScriptedFit fit("val_loss", {0.5, 0.75});
  fit.run({ModelCheckpoint{.directory = folder.path()}});
  const auto latest = checkpoint::latest_checkpoint(*io::posix_file_system(), folder.path());
  ASSERT_TRUE(latest);
  const auto saved = checkpoint::Checkpoint::open(io::posix_file_system(), *latest);
  EXPECT_TRUE(at::equal(saved.tensor("line/kernel"), fit.model().variables()[0].read()));
  EXPECT_EQ(saved.metrics().at("val_loss"), 0.75);
}

TEST(TensorBoard, WritesTrainingAndValidationSeparately) {
  const Folder folder;
  ScriptedFit("val_loss", {0.5, 0.25})
      .run({TensorBoard{
          .log_dir = folder.path(), .update_freq = UpdateFrequency::kBatch, .histogram_freq = 1}});
  const auto tags = [&](const char* name) {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / name))
      all += text_of(entry.path());
    return all;
  };
  for (const char* tag : {"epoch_loss", "batch_loss", "line/kernel/histogram"})
    EXPECT_NE(tags("train").find(tag), std::string::npos) << tag;
  EXPECT_EQ(tags("train").find("val_loss"), std::string::npos);
  EXPECT_NE(tags("validation").find("epoch_loss"), std::string::npos);
}

TEST(TerminateOnNaN, StopsAtTheFirstBadBatch) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  Model model(strategy, line());
  model.compile({.optimizer = optim::Sgd{.learning_rate = 1e200}, .loss = "mse"});
  const History history = model.fit(
      line_data(40),
      {.epochs = 3, .batch_size = 4, .callbacks = {TerminateOnNaN{}}, .verbose = Verbose::kSilent});
  EXPECT_EQ(history.epochs.size(), 1u);
  EXPECT_LT(model.global_step(), 5);
  EXPECT_NE(history.stop_reason.find("of epoch 1"), std::string::npos) << history.stop_reason;
}

TEST(Callback, IsCalledInTheSameOrderAsInKeras) {
  struct Recorder final : Callback {
    std::string calls;
    void on_train_begin(FitContext&) override { calls += "T("; }
    void on_train_end(FitContext&) override { calls += ")"; }
    void on_epoch_begin(FitContext&) override { calls += "E["; }
    void on_epoch_end(FitContext&) override { calls += "]"; }
    void on_train_batch_begin(FitContext&) override { calls += "b"; }
    void on_train_batch_end(FitContext& fit) override { calls += std::to_string(fit.batches()); }
    void on_test_begin(FitContext&) override { calls += "v"; }
    void on_test_end(FitContext& fit) override { calls += fit.logs().contains("loss") ? "V" : "?"; }
  };
  const auto recorder = std::make_shared<Recorder>();
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  Model model(strategy, line());
  model.compile({.loss = "mse"});
  model.fit(line_data(8), {.epochs = 2,
                           .batch_size = 4,
                           .validation_data = line_data(4),
                           .validation_freq = 2,
                           .callbacks = {recorder},
                           .verbose = Verbose::kSilent});
  EXPECT_EQ(recorder->calls, "T(E[b1b2]E[b1b2vV])");
}

TEST(Callback, InvalidOptionsAreRefused) {
  const std::vector<std::function<void()>> cases = {
      [] { EarlyStopping{.patience = -1}.callback(); },
      [] { EarlyStopping{.monitor = "my_figure"}.callback(); },
      [] { ReduceLROnPlateau{.factor = 1.0}.callback(); },
      [] { LearningRateScheduler{}.callback(); },
      [] { CsvLogger{}.callback(); },
      [] { ModelCheckpoint{}.callback(); },
      [] { TensorBoard{.log_dir = ""}.callback(); }};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(distribute::error_from(cases[i]).code(), ErrorCode::kInvalidArgument) << i;
  }
}

}  // namespace
}  // namespace brigade::train
