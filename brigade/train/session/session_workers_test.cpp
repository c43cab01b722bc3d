// Sessions with several workers. Here workers are threads; tests/cluster has processes that are
// killed.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "brigade/checkpoint/testing/creation_log.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/session.h"
#include "brigade/train/testing/toy_training.h"

namespace brigade::train {
namespace {

using distribute::MultiWorkerMirroredStrategy;

/// The result of one worker of a job.
struct Ended {
  std::string weights;
  double accuracy = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
};

using Change = std::function<void(MultiWorkerMirroredStrategy&, MonitoredTrainingSession&)>;

constexpr std::int64_t kAllSteps = 20;  // of ToyTraining

using FilesOf = std::function<std::shared_ptr<io::FileSystem>(int worker)>;

/// A job on `layout` (replicas of each worker) up to a step, each worker with separate files.
/// `after_step` is called in each worker after each of its steps.
std::map<int, Ended> run_job(const std::vector<int>& layout, const FilesOf& files_of,
                             const SessionOptions& options, std::int64_t last_step = kAllSteps,
                             const Change& after_step = {}) {
  std::mutex mutex;
  std::map<int, Ended> all;
  distribute::run_workers(layout, [&](MultiWorkerMirroredStrategy& strategy) {
    ToyTraining toy(strategy);
    SessionOptions own = options;
    own.hooks = {StopAtStepHook{.last_step = last_step}};
    MonitoredTrainingSession session(toy.state, own, {.files = files_of(strategy.worker_index())});
    Ended ended{.first_step = toy.state.global_step()};
    while (!session.should_stop()) {
      session.run([&] { return toy.step(); });
      if (after_step) after_step(strategy, session);
    }
    ended.accuracy = toy.accuracy.result();
    session.close();
    ended.weights = toy.weights();
    ended.last_step = toy.state.global_step();
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = ended;
  });
  for (const auto& [worker, ended] : all) {
    EXPECT_EQ(ended.weights, all[0].weights) << "worker " << worker;
    EXPECT_EQ(ended.accuracy, all[0].accuracy);
    EXPECT_EQ(ended.first_step, all[0].first_step);
    EXPECT_EQ(ended.last_step, all[0].last_step);
  }
  return all;
}

/// The same with files that all workers share.
std::map<int, Ended> run_job(const std::vector<int>& layout,
                             const std::shared_ptr<io::FileSystem>& files,
                             const SessionOptions& options, std::int64_t last_step = kAllSteps,
                             const Change& after_step = {}) {
  return run_job(
      layout, [&](int) { return files; }, options, last_step, after_step);
}

SessionOptions saving_every(std::int64_t steps) {
  return {.checkpoint_dir = "/run", .save_checkpoints = {.steps = steps}};
}

const std::vector<std::vector<int>> kLayouts = {{1, 1}, {2, 1}, {1, 1, 1}};

// The whole training has 20 steps; ToyNet has dropout and a statistic that differs between
// replicas.
TEST(SessionOfWorkers, RestartEndsWithTheSameBits) {
  for (const auto& layout : kLayouts) {
    const auto unbroken =
        run_job(layout, std::make_shared<io::MemoryFileSystem>(), saving_every(3));
    EXPECT_EQ(unbroken.at(0).last_step, 20);
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto half = run_job(layout, files, saving_every(3), 8);
    EXPECT_EQ(half.at(0).last_step, 8);
    EXPECT_NE(half.at(0).weights, unbroken.at(0).weights);
    const auto rest = run_job(layout, files, saving_every(3));
    EXPECT_EQ(rest.at(0).first_step, 8);
    EXPECT_EQ(rest.at(0).weights, unbroken.at(0).weights);
    EXPECT_EQ(rest.at(0).accuracy, unbroken.at(0).accuracy);
  }
}

/// A job in fp16's way: the loss of one replica overflows in the runs 4 and 12, while a schedule
/// sets the rate and weights are averaged. The hash is of the averages, too.
std::map<int, Ended> run_overflowing_job(const std::shared_ptr<io::FileSystem>& files,
                                         std::int64_t last_step) {
  std::mutex mutex;
  std::map<int, Ended> all;
  distribute::run_workers({2, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    ToyTraining toy(strategy, {.learning_rate = 0.05}, 8,
                    {.gradient_scaler = distribute::GradientScalerOptions{.growth_interval = 5}});
    toy.overflows = {4, 12};
    optim::ExponentialMovingAverage averages({.decay = 0.9}, toy.adam.state().variables());
    toy.state.add_averages("averages", averages);
    toy.state.add_schedule(
        "adam",
        optim::StepDecay{.initial_learning_rate = 0.05, .step_size = 3, .factor = 0.5}.schedule());
    SessionOptions options = saving_every(3);
    options.hooks = {StopAtStepHook{.last_step = last_step}};
    MonitoredTrainingSession session(toy.state, options, {.files = files});
    Ended ended{.first_step = toy.state.global_step()};
    const auto values = [&] {
      std::vector<checkpoint::NamedTensor> found;
      for (const auto& variable : toy.adam.state().variables())
        found.push_back({variable.name(), variable.read()});
      for (const auto& [name, average] : averages.state()) found.push_back({name, average});
      for (const auto& [name, slot] : toy.adam.save("adam").slots) found.push_back({name, slot});
      return checkpoint::weights_sha256(found);
    };
    while (!session.should_stop()) {
      session.run([&] {
        const std::int64_t step = toy.state.global_step();
        const std::string before = values();
        const bool overflows = toy.overflows.contains(strategy.step());
        const auto made = toy.step();
        EXPECT_EQ(toy.adam.was_skipped(), overflows);
        if (toy.adam.is_update_step()) averages.update();
        EXPECT_EQ(values() == before, overflows);
        if (overflows) {
          EXPECT_EQ(toy.state.global_step(), step);
        }
        return made;
      });
    }
    session.close();
    ended.weights = values() + toy.weights();
    ended.last_step = toy.state.global_step();
    EXPECT_EQ(ended.last_step - ended.first_step, toy.adam.updates());
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = ended;
  });
  EXPECT_EQ(all.at(1).weights, all.at(0).weights);
  return all;
}

TEST(SessionOfWorkers, AnUpdateThatOverflowsIsLeftOutByAllAndARestartRepeatsIt) {
  const auto unbroken = run_overflowing_job(std::make_shared<io::MemoryFileSystem>(), 17);
  EXPECT_EQ(unbroken.at(0).last_step, 17);
  for (const std::int64_t half : {5, 8}) {  // after the first overflow, and between the two
    const auto files = std::make_shared<io::MemoryFileSystem>();
    EXPECT_NE(run_overflowing_job(files, half).at(0).weights, unbroken.at(0).weights);
    const auto rest = run_overflowing_job(files, 17);
    EXPECT_EQ(rest.at(0).first_step, half);
    EXPECT_EQ(rest.at(0).weights, unbroken.at(0).weights);
  }
}

SessionOptions all_saving_every(std::int64_t steps) {
  SessionOptions options = saving_every(steps);
  options.scaffold.saver.writers = checkpoint::Writers::kAllWorkers;
  return options;
}

using checkpoint::testing::CreationLog;

/// Views of one file system, one per worker.
std::vector<std::shared_ptr<CreationLog>> views_of(const std::shared_ptr<io::FileSystem>& files,
                                                   std::size_t workers) {
  std::vector<std::shared_ptr<CreationLog>> views;
  for (std::size_t i = 0; i < workers; ++i) views.push_back(std::make_shared<CreationLog>(files));
  return views;
}

TEST(SessionOfWorkers, AllWorkersWriteShardsAndResumeWithTheSameBits) {
  for (const auto& layout : kLayouts) {
    const auto unbroken =
        run_job(layout, std::make_shared<io::MemoryFileSystem>(), saving_every(3));
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto views = views_of(files, layout.size());
    const auto view = [&](int worker) { return views[static_cast<std::size_t>(worker)]; };
    run_job(layout, view, all_saving_every(3), 8);
    // At the start, after steps 3 and 6, and at the end, each time a file of weights and one of
    // slots.
    for (std::size_t worker = 1; worker < views.size(); ++worker)
      EXPECT_EQ(views[worker]->tensor_files().size(), 8u) << "worker " << worker;
    const auto rest = run_job(layout, view, all_saving_every(3));
    EXPECT_EQ(rest.at(0).first_step, 8);
    EXPECT_EQ(rest.at(0).weights, unbroken.at(0).weights);
    EXPECT_EQ(rest.at(0).accuracy, unbroken.at(0).accuracy);
    for (const std::string& name : files->list("/run")) EXPECT_NE(name.front(), '.') << name;
  }
}

TEST(SessionOfWorkers, TheChiefDecidesWhetherAllWrite) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto views = views_of(files, 2);
  for (const bool is_chiefs : {true, false}) {
    distribute::run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      ToyTraining toy(strategy);
      const bool is_mine = strategy.is_chief() == is_chiefs;
      const SessionOptions options = is_mine ? all_saving_every(3) : saving_every(3);
      const auto worker = static_cast<std::size_t>(strategy.worker_index());
      MonitoredTrainingSession session(toy.state, options, {.files = views[worker]});
      session.run([&] { return toy.step(); });
      session.close();
    });
    EXPECT_EQ(views[1]->tensor_files().size(), 4u);
  }
}

TEST(SessionOfWorkers, TheChiefWritesForAWorkerWithoutAccessToTheDirectory) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto elsewhere = std::make_shared<io::MemoryFileSystem>();
  const auto view = [&](int worker) -> std::shared_ptr<io::FileSystem> {
    return worker == 1 ? elsewhere : files;
  };
  const auto half = run_job({1, 1}, view, all_saving_every(3), 8);
  EXPECT_FALSE(elsewhere->exists("/run"));
  const auto rest = run_job({1, 1}, files, all_saving_every(3));
  EXPECT_EQ(rest.at(0).first_step, 8);
  EXPECT_EQ(rest.at(0).weights,
            run_job({1, 1}, std::make_shared<io::MemoryFileSystem>(), {}).at(0).weights);
}

TEST(SessionOfWorkers, AFullDiskOfAWorkerEndsTheJobWithTheWorkersName) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto full = std::make_shared<io::FaultyFileSystem>(files);
  // Two files, created, written, synced and closed, in the first save.
  full->inject({.after = 9, .length = io::FaultLength::kEverAfter});
  const auto view = [&](int worker) -> std::shared_ptr<io::FileSystem> {
    if (worker == 1) return full;
    return files;
  };
  const Error error = distribute::error_from([&] {
    run_job({1, 1, 1}, view, all_saving_every(3));
  });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
  EXPECT_TRUE(distribute::mentions(error, "/job:worker/task:1 could not write its part"))
      << error.what();
  const auto latest = checkpoint::find_latest_complete(files, "/run");
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step(), 0);
  EXPECT_TRUE(latest.broken.empty());
}

TEST(SessionOfWorkers, AStopRequestOfOneWorkerStopsAllAtTheSameStep) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto ended =
      run_job({1, 1, 1}, files, saving_every(100), kAllSteps,
              [](MultiWorkerMirroredStrategy& strategy, MonitoredTrainingSession& session) {
                if (strategy.worker_index() == 2 && session.context().global_step() == 5)
                  session.request_stop();
              });
  EXPECT_EQ(ended.at(0).last_step, 6) << "the calls of step 6 carry the request";
  EXPECT_TRUE(checkpoint::find_latest_complete(files, "/run").checkpoint);
  EXPECT_EQ(run_job({1, 1, 1}, files, saving_every(100)).at(0).first_step, 6);
}

/// The steps that a job made in rounds of up to `steps`, as each worker saw them.
std::map<int, std::vector<std::int64_t>> rounds_of(
    std::int64_t steps, const std::function<void(SessionOptions&)>& change) {
  std::mutex mutex;
  std::map<int, std::vector<std::int64_t>> all;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  distribute::run_workers({2, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    ToyTraining toy(strategy);
    SessionOptions options = saving_every(5);
    change(options);
    MonitoredTrainingSession session(toy.state, options, {.files = files});
    std::vector<std::int64_t> seen;
    while (!session.should_stop()) {
      session.run_steps([&] { return toy.step(); },
                        [steps](std::int64_t made) { return made < steps; });
      seen.push_back(toy.state.global_step());
    }
    session.close();
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = seen;
  });
  EXPECT_EQ(all[1], all[0]) << "all workers make the same rounds";
  return all;
}

TEST(SessionOfWorkers, RoundsOfStepsEndAtTheSameStepInAll) {
  const auto exact = rounds_of(
      4, [](SessionOptions& options) { options.hooks = {StopAtStepHook{.last_step = 12}}; });
  EXPECT_EQ(exact.at(0), (std::vector<std::int64_t>{4, 5, 9, 10, 12, 12}))
      << "workers agree on the stop before the next round";
  const auto of_the_chief = rounds_of(4, [](SessionOptions& options) {
    options.chief_only_hooks = {StopAtStepHook{.last_step = 7}};
  });
  EXPECT_EQ(of_the_chief.at(0), (std::vector<std::int64_t>{4, 5, 9, 10, 10}))
      << "what the chief alone wants after a round waits for the end of the next";
}

TEST(SessionOfWorkers, TheChiefsClockDecidesWhenToSave) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SessionOptions options{.checkpoint_dir = "/run",
                         .save_checkpoints = {.time = std::chrono::milliseconds(1)}};
  run_job({1, 1}, files, options);
  EXPECT_EQ(run_job({1, 1}, files, options).at(0).first_step, 20);
}

TEST(SessionOfWorkers, ResumesOnAnotherNumberOfWorkersWithTheSameValues) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto half = run_job({1, 1}, files, saving_every(4), 8);
  const auto rest = run_job({1, 1, 1}, files, saving_every(4), 8);
  EXPECT_EQ(rest.at(0).first_step, 8);
  EXPECT_EQ(rest.at(0).accuracy, half.at(0).accuracy);
}

/// Checks the errors of two workers that create their sessions with different options.
void expect_refused(const std::function<void(ToyTraining&, SessionOptions&)>& in_second,
                    const std::string& text) {
  std::atomic<int> refused_workers = 0;
  distribute::run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    ToyTraining toy(strategy);
    SessionOptions options = saving_every(4);
    options.hooks = {StopAtStepHook{.last_step = 7}};
    if (strategy.worker_index() == 1) in_second(toy, options);
    const Error error = distribute::error_from([&] {
      MonitoredTrainingSession session(toy.state, options,
                                       {.files = std::make_shared<io::MemoryFileSystem>()});
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_TRUE(distribute::mentions(error, text)) << error.what();
    ++refused_workers;
  });
  EXPECT_EQ(refused_workers, 2) << text;
}

TEST(SessionOfWorkers, DifferentSessionsAreRefusedByAllWithBothValues) {
  expect_refused([](ToyTraining&, SessionOptions& options) { options.save_checkpoints.steps = 5; },
                 "/job:worker/task:1 has save_checkpoints 5 steps and /job:worker/task:0 has 4 "
                 "steps");
  expect_refused([](ToyTraining&, SessionOptions& options) { options.checkpoint_dir.clear(); },
                 "/job:worker/task:1 has checkpoint_dir none and /job:worker/task:0 has given");
  expect_refused([](ToyTraining&,
                    SessionOptions& options) { options.hooks = {StopAtStepHook{.last_step = 8}}; },
                 "/job:worker/task:1 has last_step 8 and /job:worker/task:0 has 7");
  expect_refused([](ToyTraining&, SessionOptions& options) { options.hooks.clear(); },
                 "/job:worker/task:1 has last_step nothing and /job:worker/task:0 has 7");
  expect_refused(
      [](ToyTraining& toy, SessionOptions&) {
        toy.state.add_schedule("adam", optim::InverseTimeDecay{.initial_learning_rate = 0.1,
                                                               .decay_steps = 2,
                                                               .decay_rate = 0.5}
                                           .schedule());
      },
      "and /job:worker/task:0 has none");
}

TEST(SessionOfWorkers, DifferentFitsAreRefusedByAllWithBothValues) {
  std::atomic<int> refused_workers = 0;
  distribute::run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    Model model(
        [](const at::Tensor& x, variables::Mode) { return layers::v1::dense(x.flatten(1), 3); });
    model.compile({.optimizer = "sgd",
                   .loss = Loss("sparse_categorical_crossentropy", {.from_logits = true})});
    const Error error = distribute::error_from([&] {
      model.fit(input::synthetic(8, {4}, 3).batch(4),
                {.epochs = 2 + strategy.worker_index(), .verbose = Verbose::kSilent});
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_TRUE(
        distribute::mentions(error, "/job:worker/task:1 has epochs 3 and /job:worker/task:0 has 2"))
        << error.what();
    ++refused_workers;
  });
  EXPECT_EQ(refused_workers, 2);
}

TEST(SessionOfWorkers, AFailedWorkerEndsTheOthersWithItsName) {
  std::atomic<int> named = 0;
  const Error error = distribute::error_from([&] {
    distribute::run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      ToyTraining toy(strategy);
      MonitoredTrainingSession session(toy.state, saving_every(2),
                                       {.files = std::make_shared<io::MemoryFileSystem>()});
      const Error own = distribute::error_from([&] {
        while (!session.should_stop()) {
          session.run([&]() -> std::optional<StepValues> {
            if (strategy.worker_index() == 1 && toy.state.global_step() == 3)
              throw Error(ErrorCode::kInternal, "the disk of worker 1 is full");
            return toy.step();
          });
        }
      });
      if (strategy.worker_index() == 1) throw own;
      if (own.code() == ErrorCode::kUnavailable && distribute::mentions(own, "/job:worker/task:1"))
        ++named;
    });
  });
  EXPECT_TRUE(distribute::mentions(error, "is full")) << error.what();
  EXPECT_EQ(named, 1);
}

}  // namespace
}  // namespace brigade::train
