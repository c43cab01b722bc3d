#include "brigade/train/session/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "brigade/base/strings.h"
#include "brigade/comm/step_progress.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/toy_training.h"
#include "brigade/variables/variable_store.h"

namespace brigade::train {
namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using distribute::MirroredStrategy;

using Calls = std::vector<std::string>;

/// Records its calls, and fails in the given one.
class RecordingHook final : public SessionRunHook {
 public:
  RecordingHook(std::string name, Calls& calls, std::string fails_at = "")
      : name_(std::move(name)), calls_(calls), fails_at_(std::move(fails_at)) {}
  void begin(SessionContext&) override { record("begin"); }
  void after_create_session(SessionContext& context) override {
    record(base::str_cat("create", context.global_step()));
  }
  void before_run(SessionContext& context) override {
    record(base::str_cat("before", context.global_step()));
  }
  void after_run(SessionContext& context, const StepValues&) override {
    record(base::str_cat("after", context.global_step()));
  }
  void on_error(SessionContext&, const std::exception_ptr&) override { record("error"); }
  void end(SessionContext& context) override { record(context.has_failed() ? "end!" : "end"); }

 private:
  void record(const std::string& call) {
    calls_.push_back(name_ + "." + call);
    if (call == fails_at_) throw Error(ErrorCode::kInternal, name_ + " failed");
  }
  std::string name_;
  Calls& calls_;
  std::string fails_at_;
};

HookPtr stop_at(std::int64_t last_step) {
  return StopAtStepHook{.last_step = last_step};
}

/// Saves at each step and writes nothing else.
SessionOptions saving(std::int64_t last_step, std::int64_t every = 1) {
  return {.checkpoint_dir = "/run",
          .hooks = {stop_at(last_step)},
          .save_checkpoints = {.steps = every},
          .save_summaries = {},
          .log_step_count = {}};
}

TEST(Session, CallsHooksInOrder) {
  SmallTraining training;
  Calls calls;
  MonitoredTrainingSession session(
      training.state,
      {.hooks = {std::make_shared<RecordingHook>("a", calls),
                 std::make_shared<RecordingHook>("b", calls)},
       .chief_only_hooks = {std::make_shared<RecordingHook>("chief", calls)}},
      training.environment());
  session.run(training.step_function());
  session.close();
  session.close();
  EXPECT_EQ(calls, (Calls{"chief.begin", "a.begin", "b.begin", "chief.create0", "a.create0",
                          "b.create0", "chief.before0", "a.before0", "b.before0", "chief.after1",
                          "a.after1", "b.after1", "chief.end", "a.end", "b.end"}));
}

/// Must see every step that is a multiple of `steps`.
class SeesMultiples final : public SessionRunHook {
 public:
  SeesMultiples(std::int64_t steps, Calls& calls) : steps_(steps), calls_(calls) {}
  void after_run(SessionContext& context, const StepValues& values) override {
    calls_.push_back(base::str_cat(context.global_step(), " ", values.number("loss")));
  }
  bool must_see(const SessionContext& context) const override {
    return context.global_step() % steps_ == 0;
  }

 private:
  std::int64_t steps_;
  Calls& calls_;
};

TEST(Session, SeveralStepsHaveOneRoundOfHooksUnlessOneMustSeeAStep) {
  SmallTraining training;
  Calls calls;
  MonitoredTrainingSession session(
      training.state,
      {.hooks = {std::make_shared<SeesMultiples>(5, calls), StopAtStepHook{.last_step = 9}}},
      training.environment());
  const auto up_to_3 = [](std::int64_t made) { return made < 3; };
  while (!session.should_stop()) session.run_steps(training.step_function(), up_to_3);
  session.close();
  EXPECT_EQ(calls, (Calls{"3 3", "5 5", "8 8", "9 9"}));
}

TEST(Session, TheEndOfTheDataEndsARoundWithTheStepsThatWereMade) {
  SmallTraining training;
  Calls calls;
  MonitoredTrainingSession session(training.state,
                                   {.hooks = {std::make_shared<SeesMultiples>(100, calls)}},
                                   training.environment());
  int left = 2;
  session.run_steps(
      [&]() -> std::optional<StepValues> {
        if (left-- == 0) return std::nullopt;
        return training.step();
      },
      [](std::int64_t) { return true; });
  EXPECT_TRUE(session.should_stop());
  session.close();
  EXPECT_EQ(calls, (Calls{"2 2"}));
  EXPECT_EQ(training.state.global_step(), 2);
}

TEST(Session, AWorkerHasOnlyItsOwnHooks) {
  SmallTraining training;
  Calls calls;
  {
    MonitoredTrainingSession session(
        training.state,
        {.checkpoint_dir = "/run",
         .role = SessionRole::kWorker,
         .hooks = {std::make_shared<RecordingHook>("a", calls)},
         .chief_only_hooks = {std::make_shared<RecordingHook>("chief", calls)}},
        training.environment());
  }
  EXPECT_EQ(calls, (Calls{"a.begin", "a.create0", "a.end"}));
  EXPECT_FALSE(training.files->exists("/run"));
}

struct ErrorCase {
  std::string fails_at;
  Calls expected;
};

TEST(Session, EndsEveryHookAfterAnyErrorAndThrowsTheFirst) {
  const std::vector<ErrorCase> cases = {
      {"begin", {"a.begin", "a.error", "a.end!"}},
      {"create0", {"a.begin", "b.begin", "a.create0", "a.error", "b.error", "a.end!", "b.end!"}},
      {"before0",
       {"a.begin", "b.begin", "a.create0", "b.create0", "a.before0", "a.error", "b.error", "a.end!",
        "b.end!"}},
      {"after1",
       {"a.begin", "b.begin", "a.create0", "b.create0", "a.before0", "b.before0", "a.after1",
        "a.error", "b.error", "a.end!", "b.end!"}},
      {"end",
       {"a.begin", "b.begin", "a.create0", "b.create0", "a.before0", "b.before0", "a.after1",
        "b.after1", "a.end", "b.end"}},
  };
  const CapturedLog log;
  for (const ErrorCase& each : cases) {
    SmallTraining training;
    Calls calls;
    const Error error = error_from([&] {
      MonitoredTrainingSession session(
          training.state,
          {.hooks = {std::make_shared<RecordingHook>("a", calls, each.fails_at),
                     std::make_shared<RecordingHook>("b", calls, "end!")}},
          training.environment());
      session.run(training.step_function());
      session.close();
    });
    EXPECT_TRUE(mentions(error, "a failed")) << each.fails_at << ": " << error.what();
    EXPECT_EQ(calls, each.expected) << each.fails_at;
  }
}

TEST(Session, AnErrorOfTheStepIsRethrownAndNothingIsSaved) {
  SmallTraining training;
  MonitoredTrainingSession session(training.state, saving(9, 100), training.environment());
  training.run(session, 2);
  EXPECT_THROW(session.run([]() -> std::optional<StepValues> { throw std::runtime_error("oops"); }),
               std::runtime_error);
  EXPECT_TRUE(session.should_stop());
  const auto latest = checkpoint::find_latest_complete(training.files, "/run");
  EXPECT_EQ(latest.checkpoint->step(), 0);
}

TEST(Session, RunAfterStopThrows) {
  SmallTraining training;
  MonitoredTrainingSession session(training.state, {}, training.environment());
  session.request_stop();
  EXPECT_EQ(error_from([&] { session.run(training.step_function()); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(Session, EndOfDataStopsTheSession) {
  SmallTraining training;
  MonitoredTrainingSession session(training.state, saving(9, 100), training.environment());
  training.run(session, 2);
  EXPECT_FALSE(session.run([] { return std::optional<StepValues>(); }).has_value());
  EXPECT_TRUE(session.should_stop());
  session.close();
  EXPECT_EQ(checkpoint::find_latest_complete(training.files, "/run").checkpoint->step(), 2);
}

TEST(Session, ResumesFromTheLastCheckpointWithoutExtraSteps) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving(10), training.environment());
    EXPECT_FALSE(session.restored().has_value());
    training.run(session, 4);
    session.close();
  }
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving(10), training.environment());
    EXPECT_EQ(session.restored()->step, 4);
    EXPECT_EQ(training.value(), 4);
    training.run(session);
    session.close();
    EXPECT_EQ(training.state.global_step(), 10);
  }
  SmallTraining training(files);
  MonitoredTrainingSession session(training.state, saving(10), training.environment());
  EXPECT_TRUE(session.should_stop());
  EXPECT_EQ(training.value(), 10);
}

TEST(Session, FindsWhatWasCreatedInTheStrategy) {
  const CapturedLog log;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto run_to = [&](const io::Path& directory, std::int64_t last_step) {
    distribute::MirroredStrategy strategy(distribute::cpus(2));
    ToyTraining training(strategy);
    MonitoredTrainingSession session(
        strategy,
        {.checkpoint_dir = directory, .hooks = {stop_at(last_step)}, .log_step_count = {}},
        {.files = files});
    while (!session.should_stop()) session.run([&] { return training.step(); });
    session.close();
    EXPECT_EQ(session.state().global_step(), last_step);
    return std::pair(training.weights(), training.accuracy.result());
  };
  const auto uninterrupted = run_to("/uninterrupted", 12);
  run_to("/run", 7);
  EXPECT_EQ(run_to("/run", 12), uninterrupted);
}

TEST(Session, RunsAStepOnTheNextBatch) {
  const CapturedLog log;
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  ToyTraining training(strategy);
  MonitoredTrainingSession session(strategy, {.log_step_count = {}});
  double sum = 0;
  while (!session.should_stop()) {
    const auto values = session.run(training.batches, [](const input::LabeledBatch& batch) {
      return batch.features.sum() * 0 + batch.features.size(0);
    });
    if (values) sum += values->number("loss");
  }
  EXPECT_EQ(session.state().global_step(), 20);
  EXPECT_NEAR(sum, 20 * (4 * 4 + 3 * 3) / 7.0, 1e-4) << "means over the examples of 4 and 3";
}

TEST(Session, RefusesToTrainWhatItWouldNotSave) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  ToyTraining training(strategy);
  MonitoredTrainingSession session(strategy, {.log_step_count = {}});
  {
    const auto late = strategy.optimizer(training.model, optim::Adam{});
    const Error error = error_from([&] { session.run([&] { return training.step(); }); });
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(mentions(error, "An optimizer (adam) was created")) << error.what();
  }
  MonitoredTrainingSession next(strategy, {.log_step_count = {}});
  EXPECT_TRUE(next.run([&] { return training.step(); }));
}

TEST(Session, WarnsIfItsDataEndsBeforeItsFirstStep) {
  const CapturedLog log;
  SmallTraining training;
  for (const bool is_empty : {true, false}) {
    MonitoredTrainingSession session(training.state, {}, training.environment());
    if (!is_empty) session.run(training.step_function());
    session.run([]() -> std::optional<StepValues> { return std::nullopt; });
    EXPECT_TRUE(session.should_stop());
    const auto warnings = std::ranges::count_if(log.lines(), [](const std::string& line) {
      return line.find("ended before the session's first step") != std::string::npos;
    });
    EXPECT_EQ(warnings, 1);
  }
}

TEST(Session, ResumesFromTheGivenCheckpoint) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving(3), training.environment());
    training.run(session);
  }
  SmallTraining fresh(files);
  SessionOptions options = saving(9);
  options.resume = Resume::kNever;
  { MonitoredTrainingSession session(fresh.state, options, fresh.environment()); }
  EXPECT_EQ(fresh.value(), 0);
  options.resume_from = "/run/ckpt-2";
  SmallTraining from_two(files);
  { MonitoredTrainingSession session(from_two.state, options, from_two.environment()); }
  EXPECT_EQ(from_two.value(), 2);
  options.resume_from = "/elsewhere";
  EXPECT_EQ(error_from([&] {
              SmallTraining nowhere(files);
              MonitoredTrainingSession(nowhere.state, options, nowhere.environment());
            }).code(),
            ErrorCode::kNotFound);
}

TEST(Session, SkipsABrokenCheckpointWithAWarning) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving(3), training.environment());
    training.run(session);
  }
  files->create("/run/ckpt-3/manifest.json", io::CreateMode::kTruncate)->close();
  const CapturedLog log;
  SmallTraining training(files);
  MonitoredTrainingSession session(training.state, saving(5), training.environment());
  ASSERT_EQ(session.passed_over().size(), 1u);
  EXPECT_EQ(session.passed_over()[0].path, "/run/ckpt-3");
  EXPECT_TRUE(log.has("ckpt-3"));
  EXPECT_EQ(training.value(), 2);
}

TEST(Session, RenamesABrokenCheckpoint) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving(3), training.environment());
    training.run(session);
  }
  files->create("/run/ckpt-3/manifest.json", io::CreateMode::kTruncate)->close();
  const std::string tensors = "tensors-00001-of-00001.safetensors";
  const bool has_tensors = files->exists("/run/ckpt-3/" + tensors);
  SmallTraining training(files);
  SessionOptions options = saving(30);
  options.scaffold.saver.keep_last = 1;
  MonitoredTrainingSession session(training.state, options, training.environment());
  training.run(session);
  session.close();
  EXPECT_EQ(files->list("/run"), (std::vector<std::string>{"ckpt-3.broken", "ckpt-30", "latest"}));
  EXPECT_EQ(files->exists("/run/ckpt-3.broken/" + tensors), has_tensors);
}

TEST(Session, ThrowsIfAllCheckpointsAreBroken) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SessionOptions options = saving(3);
  options.scaffold.saver.keep_last = 1;
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, options, training.environment());
    training.run(session);
  }
  files->create("/run/ckpt-3/manifest.json", io::CreateMode::kTruncate)->close();
  const auto before = files->list("/run/ckpt-3");
  const Error error = error_from([&] {
    SmallTraining training(files);
    MonitoredTrainingSession(training.state, options, training.environment());
  });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "ckpt-3"));
  EXPECT_EQ(files->list("/run/ckpt-3"), before);
  SmallTraining fresh(files);
  options.resume = Resume::kNever;
  MonitoredTrainingSession session(fresh.state, options, fresh.environment());
  EXPECT_EQ(fresh.value(), 0);
}

TEST(Session, InitializesOnlyWhatWasNotRestored) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  Calls calls;
  for (int process = 0; process < 2; ++process) {
    SmallTraining training(files);
    SessionOptions options = saving(9);
    options.scaffold = {.init = [&](TrainingState&) { calls.push_back("init"); },
                        .local_init = [&](TrainingState&) { calls.push_back("local"); },
                        .not_ready = [&]() -> std::optional<std::string> {
                          calls.push_back("ready");
                          return std::nullopt;
                        }};
    MonitoredTrainingSession session(training.state, options, training.environment());
    session.run(training.step_function());
  }
  EXPECT_EQ(calls, (Calls{"init", "ready", "local", "ready", "local"}));
}

TEST(Session, AWorkerWaitsUntilTheTrainingIsReadyOrTheTimeout) {
  SmallTraining training;
  int asked = 0;
  SessionOptions options{.role = SessionRole::kWorker,
                         .scaffold = {.not_ready = [&]() -> std::optional<std::string> {
                           if (++asked == 4) return std::nullopt;
                           return "the chief has not started";
                         }}};
  { MonitoredTrainingSession session(training.state, options, training.environment()); }
  EXPECT_EQ(training.clock.now().time_since_epoch(), std::chrono::milliseconds(1500));
  asked = 10;
  options.max_wait = std::chrono::seconds(5);
  const Error error = error_from(
      [&] { MonitoredTrainingSession(training.state, options, training.environment()); });
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(mentions(error, "the chief has not started"));
  options.role = SessionRole::kChief;
  EXPECT_EQ(error_from([&] {
              MonitoredTrainingSession(training.state, options, training.environment());
            }).code(),
            ErrorCode::kFailedPrecondition);
}

/// A step that fails the first `failures` times at step number `at`.
MonitoredTrainingSession::StepFunction failing(SmallTraining& training, std::int64_t at,
                                               int failures, ErrorCode code) {
  return
      [&training, at, code, left = std::make_shared<int>(failures)]() -> std::optional<StepValues> {
        StepValues values = training.step();  // the weight has changed already
        if (training.state.global_step() + 1 == at && (*left)-- > 0) {
          if (code == ErrorCode::kAborted) throw comm::StepAbandoned(1, {1}, "a peer is gone");
          throw Error(code, "a peer is gone");
        }
        return values;
      };
}

TEST(Session, RecoversFromTheLastCheckpoint) {
  const CapturedLog log;
  for (const ErrorCode code : {ErrorCode::kAborted, ErrorCode::kUnavailable}) {
    SmallTraining training;
    Calls calls;
    SessionOptions options = saving(6, 2);
    options.hooks.push_back(std::make_shared<RecordingHook>("a", calls));
    MonitoredTrainingSession session(training.state, options, training.environment());
    const auto step = failing(training, 4, 3, code);
    while (!session.should_stop()) session.run(step);
    session.close();
    EXPECT_EQ(training.value(), 6);
    EXPECT_EQ(training.state.global_step(), 6);
    EXPECT_EQ(session.context().recoveries(), 3);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "a.create2"), 3);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "a.begin"), 1);
  }
}

TEST(Session, GivesUpAfterMaxRecoveriesWithoutProgress) {
  const CapturedLog log;
  SmallTraining training;
  MonitoredTrainingSession session(training.state, saving(6, 2), training.environment());
  const auto step = failing(training, 4, 4, ErrorCode::kUnavailable);
  const Error error = error_from([&] {
    while (!session.should_stop()) session.run(step);
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(log.has("Giving up after 3 retries"));
}

TEST(Session, DoesNotRetryOtherErrors) {
  for (const SessionOptions& options : {saving(6), SessionOptions{}}) {
    SmallTraining training;
    MonitoredTrainingSession session(training.state, options, training.environment());
    const bool saves = !options.checkpoint_dir.empty();
    const auto step =
        failing(training, 1, 1, saves ? ErrorCode::kInvalidArgument : ErrorCode::kAborted);
    EXPECT_TRUE(mentions(error_from([&] { session.run(step); }), "a peer is gone"));
    EXPECT_EQ(session.context().recoveries(), 0);
  }
}

TEST(Session, DoesNotRetryAUserExceptionOfAReplica) {
  SmallTraining training;
  MonitoredTrainingSession session(training.state, saving(6), training.environment());
  EXPECT_THROW(session.run([&]() -> std::optional<StepValues> {
    training.strategy.run([](distribute::ReplicaContext&) { throw std::runtime_error("a bug"); });
    return std::nullopt;
  }),
               Error);
  EXPECT_EQ(session.context().recoveries(), 0);
}

TEST(Session, RequestedStopSavesOrDiscards) {
  for (const AtStop at_stop : {AtStop::kSave, AtStop::kDiscard}) {
    SmallTraining training;
    MonitoredTrainingSession session(training.state, saving(9, 100), training.environment());
    session.run([&] {
      session.request_stop(at_stop);
      return std::optional(training.step());
    });
    EXPECT_TRUE(session.should_stop());
    session.close();
    EXPECT_EQ(checkpoint::find_latest_complete(training.files, "/run").checkpoint->step(),
              at_stop == AtStop::kSave ? 1 : 0);
  }
}

TEST(Session, CancellingTheTokenStops) {
  SmallTraining training;
  SessionOptions options = saving(9, 100);
  MonitoredTrainingSession session(training.state, options, training.environment());
  training.run(session, 1);
  EXPECT_FALSE(session.should_stop());
  options.cancel.cancel();
  EXPECT_TRUE(session.should_stop());
}

TEST(Session, AnErrorOfTheProgramSavesNothing) {
  SmallTraining training;
  try {
    MonitoredTrainingSession session(training.state, saving(9, 100), training.environment());
    training.run(session, 2);
    throw std::runtime_error("elsewhere");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(checkpoint::find_latest_complete(training.files, "/run").checkpoint->step(), 0);
}

TEST(Session, RefusesInvalidOptions) {
  SmallTraining training;
  for (const SessionOptions& options :
       {SessionOptions{.hooks = {std::shared_ptr<SessionRunHook>()}},
        SessionOptions{.max_recoveries = -1},
        SessionOptions{.checkpoint_dir = "/run", .save_checkpoints = {.steps = 0}}}) {
    EXPECT_EQ(error_from([&] {
                MonitoredTrainingSession(training.state, options, training.environment());
              }).code(),
              ErrorCode::kInvalidArgument);
  }
}

TEST(Session, SavesBetweenUpdatesNotBetweenMicroBatches) {
  const CapturedLog log;
  const auto files = std::make_shared<io::MemoryFileSystem>();
  MirroredStrategy strategy(cpus(2));
  ToyTraining training(strategy, {}, 8, {.accumulate = 3});
  SessionOptions options = saving(7, 2);
  options.scaffold.saver.keep_last = 0;
  MonitoredTrainingSession session(training.state, options, {.files = files});
  while (!session.should_stop()) session.run([&] { return training.step(); });
  session.close();
  std::vector<std::int64_t> steps;
  for (const io::Path& path : checkpoint::checkpoint_paths(*files, "/run"))
    steps.push_back(checkpoint::Checkpoint::open(files, path).step());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 3, 6}));
  EXPECT_TRUE(log.has("between two micro-batches"));
}

TEST(Session, AVariableMayCountTheSteps) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  for (const std::int64_t last_step : {2, 4}) {
    MirroredStrategy strategy(cpus(2));
    const variables::Variable counter = [&] {
      const auto scope = strategy.scope();
      return variables::make_variable(
          {.name = "global_step", .initial = at::zeros({}, at::kLong), .trainable = false});
    }();
    ToyTraining training(strategy, {}, 8, {.accumulate = 2, .global_step = counter});
    training.state.count_by(counter);
    MonitoredTrainingSession session(training.state, saving(last_step, 1), {.files = files});
    EXPECT_EQ(training.state.global_step(), last_step - 2);
    int batches = 0;
    while (!session.should_stop()) {
      session.run([&] { return training.step(); });
      ++batches;
    }
    session.close();
    EXPECT_EQ(batches, 4);
    EXPECT_EQ(training.adam.state().step(0), last_step);
  }
}

/// Trains a net with dropout on two replicas to the end of its data, in one process.
struct TrainingProcess {
  explicit TrainingProcess(std::shared_ptr<io::FileSystem> the_files)
      : files(std::move(the_files)), strategy(cpus(2, 5)), training(strategy) {}
  /// Throws the errors of the file system.
  void train() {
    SessionOptions options{.checkpoint_dir = "/run",
                           .save_checkpoints = {.steps = 3},
                           .save_summaries = {},
                           .log_step_count = {},
                           .max_recoveries = 0};
    options.scaffold.saver.writing = checkpoint::Writing::kForeground;
    MonitoredTrainingSession session(training.state, options, {.files = files});
    while (!session.should_stop()) session.run([&] { return training.step(); });
    session.close();
  }
  std::shared_ptr<io::FileSystem> files;
  MirroredStrategy strategy;
  ToyTraining training;
};

TEST(Session, EndsWithTheSameWeightsAfterAnyDiskError) {
  base::set_log_level(base::LogLevel::kOff);
  const auto memory = std::make_shared<io::MemoryFileSystem>();
  const auto whole = std::make_shared<io::FaultyFileSystem>(memory);
  TrainingProcess unbroken(whole);
  unbroken.train();
  EXPECT_EQ(unbroken.training.state.global_step(), 20);
  const std::size_t operations = whole->operations();
  for (std::size_t after = 1; after < operations; after += 19) {
    const auto disk = std::make_shared<io::MemoryFileSystem>();
    const auto faulty = std::make_shared<io::FaultyFileSystem>(disk);
    faulty->inject({.after = after, .length = io::FaultLength::kEverAfter});
    EXPECT_THROW(TrainingProcess(faulty).train(), Error) << after;
    disk->drop_unsynced();  // the machine crashed, too
    TrainingProcess again(disk);
    again.train();
    EXPECT_EQ(again.training.weights(), unbroken.training.weights()) << after;
    EXPECT_EQ(again.training.accuracy.result(), unbroken.training.accuracy.result()) << after;
  }
  base::set_log_level(base::LogLevel::kInfo);
}

}  // namespace
}  // namespace brigade::train
