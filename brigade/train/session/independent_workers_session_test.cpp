// Sessions of workers that share no collectives: strategies of one process that share variables in
// memory, and whose steps alternate.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/distribute/testing/shared_job.h"
#include "brigade/input/synthetic.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/sgd.h"
#include "brigade/summary/event.h"
#include "brigade/summary/event_file_reader.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/hooks/global_step_waiter_hook.h"
#include "brigade/train/hooks/profiler_hook.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/hooks/summary_hooks.h"
#include "brigade/train/model/evaluate.h"
#include "brigade/train/session/session.h"
#include "brigade/train/testing/small_session.h"

namespace brigade::train {
namespace {

using distribute::SharedJob;
using distribute::SharedJobStrategy;

struct JobWeight : torch::nn::Module {
  JobWeight() { value = register_parameter("value", at::zeros({}, at::kDouble)); }
  at::Tensor value;
};

constexpr int kChiefsIndex = 0;
constexpr int kOthersIndex = 1;

/// A worker of a job of two, as its process creates it, with files of its own. Each step of a
/// worker subtracts one from the weight.
struct JobWorker {
  JobWorker(SharedJob& job, int index,
            std::shared_ptr<io::FileSystem> its_files = std::make_shared<io::MemoryFileSystem>())
      : files(std::move(its_files)),
        strategy(job, {.index = index, .count = 2}),
        model(strategy.create<JobWeight>()),
        sgd(strategy.optimizer(model, optim::Sgd{.momentum = 0.5})),
        state(strategy) {
    state.add_model(model);
    state.add_optimizer("sgd", sgd);
  }
  std::unique_ptr<MonitoredTrainingSession> session(SessionOptions options) {
    options.save_summaries = {};
    options.log_step_count = {};
    return std::make_unique<MonitoredTrainingSession>(state, std::move(options), environment());
  }
  SessionEnvironment environment() {
    return {.files = files, .clock = &clock, .wait = [this](auto time, const auto&) {
              clock.advance(time);
              if (on_wait) on_wait();
            }};
  }
  StepValues step() {
    strategy.run([&] { sgd.minimize(model->value * 1.0, distribute::LossScale::kSum); });
    return {{"loss", model->value}};
  }
  void run(MonitoredTrainingSession& session) {
    session.run([this] { return std::optional(step()); });
  }
  double value() const { return model->value.item<double>(); }

  std::shared_ptr<io::FileSystem> files;
  base::ManualClock clock;
  std::function<void()> on_wait;
  SharedJobStrategy strategy;
  distribute::Replicated<JobWeight> model;
  distribute::Optimizer sgd;
  TrainingState state;
};

std::vector<std::int64_t> steps_saved_in(const io::FileSystem& files) {
  std::vector<std::int64_t> steps;
  if (!files.exists("/run")) return steps;
  for (const io::Path& path : checkpoint::checkpoint_paths(files, "/run"))
    steps.push_back(checkpoint::read_manifest(files, path).step);
  return steps;
}

SessionOptions until_step(std::int64_t last_step) {
  return {.checkpoint_dir = "/run",
          .hooks = {StopAtStepHook{.last_step = last_step}},
          .save_checkpoints = {.steps = 4}};
}

TEST(IndependentWorkersSession, StopsAtTheStepOfTheJobAndOnlyTheChiefSaves) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto chiefs = chief.session(until_step(7));
  const auto others = other.session(until_step(7));
  chief.run(*chiefs);
  while (!chiefs->should_stop()) {
    other.run(*others);
    chief.run(*chiefs);
  }
  EXPECT_EQ(job.step, 7) << "4 steps of the chief, 3 of the other";
  EXPECT_EQ(chief.state.global_step(), 7);
  others->request_stop();
  others->close();
  chiefs->close();
  EXPECT_EQ(steps_saved_in(*chief.files), (std::vector<std::int64_t>{0, 5, 7}));
  EXPECT_EQ(steps_saved_in(*other.files), (std::vector<std::int64_t>{}));
}

TEST(IndependentWorkersSession, EndsAtAStepThatAnotherWorkerReached) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto chiefs = chief.session(until_step(100));
  const auto others = other.session(until_step(3));
  other.run(*others);
  for (int i = 0; i < 2; ++i) chief.run(*chiefs);
  EXPECT_FALSE(others->should_stop());
  other.state.store();  // learns of the chief's steps
  other.run(*others);
  EXPECT_TRUE(others->should_stop());
  EXPECT_EQ(job.step, 3);
  others->close();
  chiefs->request_stop(AtStop::kDiscard);
  chiefs->close();
}

TEST(IndependentWorkersSession, TheChiefRestoresForAll) {
  const CapturedLog log;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SharedJob job;
    JobWorker chief(job, kChiefsIndex, files);
    JobWorker other(job, kOthersIndex);
    const auto chiefs = chief.session(until_step(5));
    const auto others = other.session(until_step(5));
    other.run(*others);
    while (!chiefs->should_stop()) chief.run(*chiefs);
    others->close();
    chiefs->close();
  }
  SharedJob job;
  JobWorker chief(job, kChiefsIndex, files);
  JobWorker other(job, kOthersIndex, files);  // sees the checkpoints, too
  bool is_initialized = false;
  SessionOptions options = until_step(6);
  options.scaffold.init = [&](TrainingState&) { is_initialized = true; };
  const auto chiefs = chief.session(options);
  EXPECT_TRUE(chiefs->restored().has_value());
  EXPECT_EQ(job.step, 5);
  EXPECT_EQ(chief.state.global_step(), 5);
  EXPECT_EQ(chief.value(), -5);
  const auto others = other.session(options);
  EXPECT_FALSE(others->restored().has_value());
  EXPECT_EQ(other.state.global_step(), 5);
  EXPECT_EQ(other.value(), -5);
  EXPECT_FALSE(is_initialized);
  chief.run(*chiefs);
  EXPECT_TRUE(chiefs->should_stop());
  chiefs->close();
  others->close();
}

TEST(IndependentWorkersSession, InitialValuesOfTheChiefAreTheJobs) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto init = [](TrainingState& state) {
    state.variables()[0].assign(at::full({}, 9.0, at::kDouble));
  };
  const auto chiefs = chief.session({.scaffold = {.init = init}});
  const auto others = other.session({});
  EXPECT_EQ(other.value(), 9);
  others->close();
  chiefs->close();
}

// A restore would undo the other workers' steps.
TEST(IndependentWorkersSession, DoesNotRecoverFromErrors) {
  for (const int count : {1, 2}) {
    SharedJob job;
    const auto files = std::make_shared<io::MemoryFileSystem>();
    SharedJobStrategy strategy(job, {.index = 0, .count = count});
    const auto model = strategy.create<JobWeight>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{});
    MonitoredTrainingSession session(strategy, {.checkpoint_dir = "/run"}, {.files = files});
    int attempts = 0;
    const Error error = distribute::error_from([&] {
      session.run([&]() -> std::optional<StepValues> {
        ++attempts;
        throw Error(ErrorCode::kUnavailable, "the server is away");
      });
    });
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(attempts, 1) << count;
  }
}

TEST(IndependentWorkersSession, AStateIsFetchedBeforeItIsSavedAndStoredAfterItIsRestored) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SharedJob first;
  {
    JobWorker chief(first, kChiefsIndex, files);
    JobWorker other(first, kOthersIndex);
    chief.state.set_global_step(10);
    chief.state.store();
    chief.step();
    other.step();
    first.states.at("value").slots.at(0).fill_(0.75);
    EXPECT_EQ(chief.value(), -1);
    checkpoint::Saver saver(files, {.directory = "/run"});
    const checkpoint::Contents contents = chief.state.contents();
    EXPECT_EQ(contents.state.as_int64("global_step"), 12);
    saver.save(12, contents);
    saver.close();
    EXPECT_EQ(chief.value(), -2);
  }
  SharedJob second;
  JobWorker chief(second, kChiefsIndex, files);
  const auto latest = checkpoint::find_latest_complete(files, "/run").checkpoint;
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(chief.state.restore(*latest).step, 12);
  EXPECT_EQ(second.step, 12);
  EXPECT_EQ(second.states.at("value").value.item<double>(), -2);
  EXPECT_EQ(second.states.at("value").slots.at(0).item<double>(), 0.75);
  EXPECT_EQ(chief.sgd.state().step(0), 12);
  EXPECT_EQ(chief.state.global_step(), 12);
}

TEST(IndependentWorkersSession, AChiefThatIsRestartedContinuesWithTheJob) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SharedJob job;
  {
    JobWorker chief(job, kChiefsIndex, files);
    const auto session = chief.session(until_step(4));
    while (!session->should_stop()) chief.run(*session);
    session->close();
  }
  JobWorker other(job, kOthersIndex);
  other.step();
  JobWorker chief(job, kChiefsIndex, files);
  const auto session = chief.session(until_step(6));
  EXPECT_EQ(chief.state.global_step(), 5) << "the checkpoint has step 4";
  EXPECT_EQ(chief.value(), -5);
  chief.run(*session);
  EXPECT_TRUE(session->should_stop());
  session->close();
}

/// A worker whose steps read batches of the numbers from 0, 4 each.
struct ReadingWorker : JobWorker {
  ReadingWorker(
      SharedJob& job, int index,
      std::shared_ptr<io::FileSystem> its_files = std::make_shared<io::MemoryFileSystem>())
      : JobWorker(job, index, std::move(its_files)),
        batches(
            strategy.distribute(input::from_tensor_slices(at::arange(400)).batch(4)).iterator()) {
    state.add_iterator("train", batches);
  }
  /// Makes a step. Returns the number of its batch.
  std::int64_t read(MonitoredTrainingSession& session) {
    std::int64_t number = -1;
    session.run([&]() -> std::optional<StepValues> {
      const auto batch = batches.next();
      if (!batch) return std::nullopt;
      number = batch->values().front()[0].item<std::int64_t>() / 4;
      return step();
    });
    return number;
  }
  /// Begins a session, and makes `steps` steps in it, whose batches it returns. Then the process is
  /// killed: nothing is saved any more.
  std::vector<std::int64_t> read_and_die(int steps) {
    std::vector<std::int64_t> numbers;
    SessionOptions options = until_step(1000);
    options.scaffold.saver.writing = checkpoint::Writing::kForeground;
    try {
      const auto session = this->session(std::move(options));
      for (int i = 0; i < steps; ++i) numbers.push_back(read(*session));
      throw std::runtime_error("killed");
    } catch (const std::runtime_error&) {
      return numbers;
    }
  }

  distribute::DistributedIterator<at::Tensor> batches;
};

/// Of the chief also, but from its checkpoint.
TEST(IndependentWorkersSession, AWorkerThatIsRestartedReadsItsShardOfTheDataFromTheBeginning) {
  using Numbers = std::vector<std::int64_t>;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SharedJob job;
  EXPECT_EQ(ReadingWorker(job, kChiefsIndex, files).read_and_die(6), Numbers({0, 2, 4, 6, 8, 10}))
      << "a checkpoint was saved at step 4, of 4 batches of each worker";
  EXPECT_EQ(ReadingWorker(job, kOthersIndex).read_and_die(3), Numbers({1, 3, 5}));
  EXPECT_EQ(ReadingWorker(job, kOthersIndex).read_and_die(2), Numbers({1, 3}))
      << "nobody else read them, and its successor does not know what it had read";
  EXPECT_EQ(ReadingWorker(job, kChiefsIndex, files).read_and_die(2), Numbers({8, 10}));
  EXPECT_EQ(job.step, 13) << "the values of all steps count";
}

TEST(IndependentWorkersSession, ARestartedChiefSavesTheLastStepIfOnlyOthersMadeIt) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SharedJob job;
  {
    JobWorker chief(job, kChiefsIndex, files);
    const auto session = chief.session(until_step(4));
    while (!session->should_stop()) chief.run(*session);
    session->close();
  }
  JobWorker other(job, kOthersIndex);
  other.step();
  JobWorker chief(job, kChiefsIndex, files);
  const auto session = chief.session(until_step(5));
  EXPECT_TRUE(session->should_stop());
  session->close();
  EXPECT_EQ(steps_saved_in(*files), (std::vector<std::int64_t>{0, 4, 5}));
}

TEST(IndependentWorkersSession, AChiefWithoutAStepToMakeLetsTheOthersBegin) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  const auto chiefs = chief.session(until_step(0));
  EXPECT_TRUE(chiefs->should_stop());
  chiefs->close();
  EXPECT_TRUE(job.is_running);
  EXPECT_EQ(job.begun_steps, 0);
}

TEST(IndependentWorkersSession, AWorkerThatResumesDoesNotDrawTheFirstRandomNumbersAgain) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SharedJob job;
    JobWorker chief(job, kChiefsIndex, files);
    const auto session = chief.session(until_step(5));
    while (!session->should_stop()) chief.run(*session);
    session->close();
  }
  SharedJob job;
  JobWorker chief(job, kChiefsIndex, files);
  JobWorker other(job, kOthersIndex);
  const auto chiefs = chief.session(until_step(9));
  const auto others = other.session(until_step(9));
  EXPECT_EQ(other.strategy.step(), 5u);
  others->close();
  chiefs->close();
}

TEST(IndependentWorkersSession, ANumberOfStepsOfEachWorkerIsRefused) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  const SessionOptions options{.hooks = {StopAtStepHook{.num_steps = 3}}};
  const Error error = distribute::error_from([&] { chief.session(options); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(distribute::mentions(error, "last_step")) << error.what();

  SharedJob own;
  SharedJobStrategy alone(own, {.index = 0, .count = 1});
  const auto model = alone.create<JobWeight>();
  const auto sgd = alone.optimizer(model, optim::Sgd{});
  EXPECT_NO_THROW(MonitoredTrainingSession(alone, options));
}

TEST(IndependentWorkersSession, AHookThatDoesNotSaveDoesNotWarnOfAnUnsavedStep) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  const auto chiefs = chief.session({});
  SharedJobStrategy strategy(job, {.index = kOthersIndex, .count = 2});
  const auto model = strategy.create<JobWeight>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.momentum = 0.5}, {.accumulate = 2});
  const CapturedLog log;
  MonitoredTrainingSession session(strategy,
                                   {.hooks = {CheckpointSaverHook{.saver = {.directory = "/own"}}}},
                                   {.files = std::make_shared<io::MemoryFileSystem>()});
  session.run([&] {
    strategy.run([&] { sgd.minimize(model->value * 1.0, distribute::LossScale::kSum); });
    return std::optional(StepValues{{"loss", model->value}});
  });
  ASSERT_EQ(sgd.micro_batches(), 1);
  session.close();
  EXPECT_FALSE(log.has("micro-batches"));
  chiefs->close();
}

TEST(IndependentWorkersSession, TheChiefAloneProfilesAndMissesNoRange) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto options = [] {  // each worker has a hook of its own
    return SessionOptions{
        .hooks = {ProfilerHook{.directory = "/profile", .steps = StepRange{3, 3}}}};
  };
  const auto chiefs = chief.session(options());
  const auto others = other.session(options());
  chief.run(*chiefs);
  for (int i = 0; i < 3; ++i) other.run(*others);
  for (int i = 0; i < 3; ++i) chief.run(*chiefs);  // steps 5, 6 and 7
  others->close();
  chiefs->close();
  EXPECT_EQ(chief.files->list("/profile"), (std::vector<std::string>{"timeline-6.json"}));
  EXPECT_FALSE(other.files->exists("/profile"));
}

/// [step]: the histogram of how stale the updates were, of all event files in a folder.
std::map<std::int64_t, summary::Histogram> staleness_in(const io::FileSystem& files,
                                                        const io::Path& folder) {
  std::map<std::int64_t, summary::Histogram> found;
  for (const io::Path& path : summary::event_files(files, folder)) {
    summary::EventFileReader reader(files, path);
    while (const auto event = reader.next()) {
      const auto* written = std::get_if<summary::Summary>(&event->content);
      if (written == nullptr) continue;
      for (const summary::TaggedValue& each : written->values)
        if (each.tag == kStalenessTag)
          found[event->step] = std::get<summary::Histogram>(each.value);
    }
  }
  return found;
}

TEST(IndependentWorkersSession, HowStaleUpdatesWereIsAHistogramInTheChiefsSummaries) {
  SharedJob job;
  job.updates_of_others = 3;
  JobWorker chief(job, kChiefsIndex);
  EXPECT_EQ(chief.strategy.staleness(), distribute::UpdateStaleness());
  MonitoredTrainingSession session(
      chief.state,
      {.save_summaries = {.steps = 8}, .log_step_count = {}, .summary_dir = "/summaries"},
      chief.environment());
  chief.run(session);
  job.updates_of_others = 0;
  chief.run(session);
  job.updates_of_others = 6;
  chief.run(session);
  session.close();
  const auto histograms = staleness_in(*chief.files, "/summaries");
  ASSERT_EQ(histograms.size(), 2U);
  EXPECT_EQ(histograms.at(4).count, 1) << "the first step";
  EXPECT_EQ(histograms.at(4).max, 3);
  const summary::Histogram& later = histograms.at(12);
  EXPECT_EQ(later.count, 2) << "those since then";
  EXPECT_EQ(later.min, 0);
  EXPECT_EQ(later.max, 6);
  EXPECT_EQ(later.sum, 6);
  EXPECT_EQ(chief.strategy.staleness()->mean(), 3);
}

TEST(IndependentWorkersSession, AWorkerWaitsForTheStepOfTheJob) {
  const CapturedLog log;
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto chiefs = chief.session({});
  const auto others = other.session({.hooks = {GlobalStepWaiterHook{.wait_until_step = 3}}});
  other.on_wait = [&] { chief.run(*chiefs); };
  other.run(*others);
  EXPECT_EQ(job.step, 4);
  chiefs->close();
  others->close();
}

TEST(IndependentWorkersSession, ChecksEveryFewStepsOfTheJob) {
  SharedJob job;
  JobWorker chief(job, kChiefsIndex);
  JobWorker other(job, kOthersIndex);
  const auto chiefs = chief.session({.hooks = {NanHook{.every_steps = 2}}});
  const auto others = other.session({});
  const auto nan_step = [&] {
    StepValues values = chief.step();
    values.set("loss", std::numeric_limits<double>::quiet_NaN());
    return std::optional(values);
  };
  chiefs->run(nan_step);  // step 1
  other.run(*others);     // step 2
  EXPECT_THROW(chiefs->run(nan_step), Error) << "step 3, the first of the chief's after step 2";
  others->close();
}

struct ZeroClassifier : torch::nn::Module {
  ZeroClassifier() { weight = register_parameter("weight", at::zeros({3, 4})); }
  at::Tensor forward(const at::Tensor& features) const {
    return features.flatten(1).matmul(weight.t());
  }
  at::Tensor weight;
};

TEST(IndependentWorkersSession, EachWorkerEvaluatesAllData) {
  SharedJob job;
  for (const int index : {kChiefsIndex, kOthersIndex}) {
    SharedJobStrategy strategy(job, {.index = index, .count = 2}, 2);
    const auto model = strategy.create<ZeroClassifier>();
    EXPECT_EQ(evaluate(strategy, model, input::synthetic(35, {4}, 3).batch(7)).examples, 35);
  }
}

}  // namespace
}  // namespace brigade::train
