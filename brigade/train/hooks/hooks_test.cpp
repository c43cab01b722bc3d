#include "brigade/train/hooks/hook.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/hooks/checkpoint_saver_hook.h"
#include "brigade/train/hooks/final_ops_hook.h"
#include "brigade/train/hooks/global_step_waiter_hook.h"
#include "brigade/train/hooks/logging_hooks.h"
#include "brigade/train/hooks/memory_hook.h"
#include "brigade/train/hooks/profiler_hook.h"
#include "brigade/train/hooks/step_timer.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/hooks/summary_hooks.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/toy_training.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using distribute::mentions;
using std::chrono::seconds;

using Hooks = std::vector<HookPtr>;

/// A session with this number of steps, one second each, and only these hooks.
void run_with(SmallTraining& training, Hooks hooks, std::int64_t steps) {
  hooks.push_back(StopAtStepHook{.last_step = steps});
  MonitoredTrainingSession session(
      training.state, {.hooks = std::move(hooks), .log_step_count = {}}, training.environment());
  while (!session.should_stop()) {
    session.run([&] {
      training.clock.advance(seconds(1));
      return std::optional(training.step());
    });
  }
  session.close();
}

std::vector<std::int64_t> steps_in(const io::FileSystem& files, const io::Path& directory) {
  std::vector<std::int64_t> steps;
  for (const io::Path& path : checkpoint::checkpoint_paths(files, directory))
    steps.push_back(checkpoint::read_manifest(files, path).step);
  return steps;
}

std::shared_ptr<CheckpointSavingHook> saver(
    Every every, std::vector<std::shared_ptr<CheckpointListener>> listeners = {}) {
  return CheckpointSaverHook{.saver = {.directory = "/run", .keep_last = 0},
                             .every = every,
                             .listeners = std::move(listeners)}
      .hook();
}

TEST(CheckpointSaverHook, SavesAtTheStartWhenDueAndAtTheEnd) {
  SmallTraining training;
  run_with(training, {saver({.steps = 3})}, 7);
  EXPECT_EQ(steps_in(*training.files, "/run"), (std::vector<std::int64_t>{0, 3, 6, 7}));
}

TEST(CheckpointSaverHook, SavesByTime) {
  SmallTraining training;
  run_with(training, {saver({.time = seconds(4)})}, 8);
  EXPECT_EQ(steps_in(*training.files, "/run"), (std::vector<std::int64_t>{0, 4, 8}));
}

TEST(CheckpointSaverHook, DoesNotSaveTheRestoredCheckpointAgain) {
  SmallTraining training;
  SessionOptions options{.checkpoint_dir = "/run", .save_summaries = {}, .log_step_count = {}};
  { MonitoredTrainingSession session(training.state, options, training.environment()); }
  const auto faulty = std::make_shared<io::FaultyFileSystem>(training.files);
  SmallTraining again(faulty);
  MonitoredTrainingSession session(again.state, options, again.environment());
  const std::size_t before = faulty->operations();
  session.close();
  EXPECT_EQ(faulty->operations(), before);
  EXPECT_EQ(steps_in(*faulty, "/run"), (std::vector<std::int64_t>{0}));
}

TEST(CheckpointSaverHook, CallsItsListenersWhichMayStopTheTraining) {
  struct Listener final : CheckpointListener {
    void begin(SessionContext&) override { calls += "begin "; }
    void before_save(SessionContext& context) override {
      calls += base::str_cat("before", context.global_step(), " ");
    }
    AfterSave after_save(SessionContext& context) override {
      calls += base::str_cat("after", context.global_step(), " ");
      return context.global_step() == 2 ? AfterSave::kStop : AfterSave::kContinue;
    }
    void end(SessionContext&) override { calls += "end"; }
    std::string calls;
  };
  SmallTraining training;
  const auto listener = std::make_shared<Listener>();
  run_with(training, {saver({.steps = 2}, {listener})}, 9);
  EXPECT_EQ(training.value(), 2);
  EXPECT_EQ(listener->calls, "begin before0 after0 before2 after2 end");
}

TEST(CheckpointSaverHook, AFailedWriteIsThrownAndTheLastCheckpointStays) {
  const CapturedLog log;
  const auto files =
      std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
  SmallTraining training(files);
  const auto hook = saver({.steps = 2});
  const Error error = error_from([&] {
    MonitoredTrainingSession session(training.state, {.hooks = {hook}, .log_step_count = {}},
                                     training.environment());
    hook->wait();
    files->inject({.code = ErrorCode::kResourceExhausted, .length = io::FaultLength::kEverAfter});
    training.run(session, 10);
  });
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
  EXPECT_EQ(steps_in(*files, "/run"), (std::vector<std::int64_t>{0}));
}

TEST(CheckpointSaverHook, TheLastSaveReplacesAFailedOne) {
  const CapturedLog log;
  const auto files =
      std::make_shared<io::FaultyFileSystem>(std::make_shared<io::MemoryFileSystem>());
  SmallTraining training(files);
  const auto hook = saver({.steps = 2});
  MonitoredTrainingSession session(training.state, {.hooks = {hook}, .log_step_count = {}},
                                   training.environment());
  hook->wait();
  files->inject({.code = ErrorCode::kResourceExhausted});
  training.run(session, 3);
  session.close();
  EXPECT_EQ(steps_in(*files, "/run"), (std::vector<std::int64_t>{0, 3}));
  EXPECT_TRUE(log.has("A checkpoint was not written"));
}

TEST(StepCounterHook, LogsStepsPerSecond) {
  const CapturedLog log;
  SmallTraining training;
  run_with(training, {StepCounterHook{.every = {.steps = 4}}}, 9);
  EXPECT_EQ(log.lines(), (std::vector<std::string>{"global_step/sec: 1", "global_step/sec: 1"}));
}

TEST(StepBreakdownHook, ReportsTheTimesOfEachReplica) {
  const CapturedLog log;
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  ToyTraining training(strategy);
  const auto files = std::make_shared<io::MemoryFileSystem>();
  MonitoredTrainingSession session(
      training.state,
      {.hooks = {StepBreakdownHook{.every = {.steps = 3}}, StopAtStepHook{.last_step = 4}},
       .save_summaries = {},
       .log_step_count = {},
       .summary_dir = "/summaries"},
      {.files = files});
  while (!session.should_stop()) session.run([&] { return training.step(); });
  session.close();
  EXPECT_TRUE(log.has("step breakdown"));
  const std::vector<std::string> scalars = scalars_in(*files, "/summaries");
  ASSERT_EQ(scalars.size(), 11u);  // five phases of two replicas, once
  EXPECT_EQ(scalars.front(), "time_outside_steps@3");
  EXPECT_EQ(scalars.back(), "step_shares/replica_1/update@3");
}

TEST(MemoryHook, WritesTheMemoryOfTheProcess) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SmallTraining training;
  MonitoredTrainingSession session(
      training.state,
      {.hooks = {MemoryHook{.every = {.steps = 2}}, StopAtStepHook{.last_step = 4}},
       .save_summaries = {},
       .log_step_count = {},
       .summary_dir = "/summaries"},
      {.files = files});
  while (!session.should_stop()) session.run([&] { return training.step(); });
  session.close();
  EXPECT_EQ(scalars_in(*files, "/summaries"),
            (std::vector<std::string>{"memory/resident_bytes@1", "memory/resident_bytes@3"}));
}

/// Counts steps over all processes.
class Counter final : public SessionRunHook {
 public:
  void begin(SessionContext& context) override {
    context.state().add(
        {.name = "hook/counter",
         .save = [this] { return CheckpointableState{.tree = count, .tensors = {}}; },
         .restore = [this](const CheckpointableState& saved) { count = saved.tree.as_int64(); },
         .missing = checkpoint::Missing::kSkip});
  }
  void after_run(SessionContext&, const StepValues&) override { ++count; }
  void end(SessionContext& context) override { context.state().remove("hook/counter"); }
  std::int64_t count = 0;
};

TEST(Hook, KeepsStateInTheCheckpoint) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto run = [&](const HookPtr& hook, AtStop at_stop) {
    SmallTraining training(files);
    MonitoredTrainingSession session(
        training.state,
        {.checkpoint_dir = "/run", .hooks = {hook}, .save_checkpoints = {.steps = 2}},
        training.environment());
    training.run(session, 3);
    session.request_stop(at_stop);
    session.close();
  };
  run(StepCounterHook{}, AtStop::kSave);  // a checkpoint that lacks the part
  const auto first = std::make_shared<Counter>();
  run(first, AtStop::kDiscard);
  EXPECT_EQ(first->count, 3);
  const auto second = std::make_shared<Counter>();
  run(second, AtStop::kSave);
  EXPECT_EQ(second->count, 5) << "two from the checkpoint of the first one's second step";
}

TEST(StopAtStepHook, CountsFromTheBeginningOfTheRun) {
  SmallTraining training;
  training.state.set_global_step(5);
  const auto hook = StopAtStepHook{.num_steps = 3};
  run_with(training, {hook}, 100);
  EXPECT_EQ(training.state.global_step(), 8);
}

TEST(StopAtStepHook, TakesExactlyOneOption) {
  EXPECT_THROW(StopAtStepHook{}.hook(), Error);
  EXPECT_THROW((StopAtStepHook{.num_steps = 1, .last_step = 2}.hook()), Error);
  EXPECT_THROW(StopAtStepHook{.last_step = -1}.hook(), Error);
}

TEST(LoggingHook, WritesValuesAndTheTimeSinceTheLastLine) {
  const CapturedLog log;
  SmallTraining training;
  run_with(training, {LoggingHook{.values = {"loss"}, .every = {.steps = 3}, .at_end = true}}, 6);
  EXPECT_EQ(log.lines(),
            (std::vector<std::string>{"loss = 1", "loss = 4 (3.000 sec)", "loss = 6 (2.000 sec)"}));
}

TEST(LoggingHook, SupportsAFormatAndLoggingOnlyAtTheEnd) {
  const CapturedLog log;
  SmallTraining training;
  run_with(training,
           {LoggingHook{.every = {},
                        .at_end = true,
                        .format = [](std::int64_t step,
                                     const StepValues&) { return base::str_cat("at ", step); }}},
           3);
  EXPECT_EQ(log.lines(), (std::vector<std::string>{"at 3"}));
  EXPECT_THROW(LoggingHook{.every = {}}.hook(), Error);
}

TEST(LoggingHook, ErrorNamesTheExistingValues) {
  SmallTraining training;
  const auto hook = LoggingHook{.values = {"lost"}};
  const Error error = error_from([&] { run_with(training, {hook}, 3); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "loss")) << error.what();
}

void run_to_nan(SmallTraining& training, NanHook options, std::int64_t save_every = 100) {
  MonitoredTrainingSession session(training.state,
                                   {.checkpoint_dir = "/run",
                                    .hooks = {std::move(options)},
                                    .save_checkpoints = {.steps = save_every},
                                    .save_summaries = {},
                                    .log_step_count = {}},
                                   training.environment());
  while (!session.should_stop()) {
    session.run([&] {
      training.step();
      StepValues values;
      values.set("loss", training.value() < 3 ? 1.0 : std::numeric_limits<double>::quiet_NaN());
      return std::optional(values);
    });
  }
  session.close();
}

TEST(NanHook, FailsOrStopsWithoutSavingTheState) {
  const CapturedLog log;
  SmallTraining failing;
  const Error error = error_from([&] { run_to_nan(failing, {}); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "'loss' is nan in step 3")) << error.what();
  EXPECT_EQ(steps_in(*failing.files, "/run"), (std::vector<std::int64_t>{0}));
  SmallTraining stopping;
  run_to_nan(stopping, {.then = NanHook::Then::kStop});
  EXPECT_EQ(stopping.value(), 3);
  EXPECT_EQ(steps_in(*stopping.files, "/run"), (std::vector<std::int64_t>{0}));
  SmallTraining saving;
  EXPECT_THROW(run_to_nan(saving, {}, 1), Error);
  EXPECT_EQ(steps_in(*saving.files, "/run"), (std::vector<std::int64_t>{0, 1, 2}));
  SmallTraining stopping_and_saving;
  run_to_nan(stopping_and_saving, {.then = NanHook::Then::kStop}, 1);
  EXPECT_EQ(steps_in(*stopping_and_saving.files, "/run"), (std::vector<std::int64_t>{0, 1, 2}));
  SmallTraining seldom;
  run_to_nan(seldom, {.then = NanHook::Then::kStop, .every_steps = 5});
  EXPECT_EQ(seldom.value(), 5);
}

TEST(FinalOpsHook, ComputesAtTheEndUnlessTheTrainingFailed) {
  const auto final_ops = [] {
    return std::make_shared<FinalOpsHook>([](SessionContext& context) {
      StepValues values;
      values.set("step", static_cast<double>(context.global_step()));
      return values;
    });
  };
  SmallTraining training;
  const auto hook = final_ops();
  run_with(training, {hook}, 2);
  EXPECT_EQ(hook->values()->number("step"), 2);
  const auto failed = final_ops();
  const auto lost = LoggingHook{.values = {"lost"}};
  EXPECT_THROW(run_with(training, {failed, lost}, 5), Error);
  EXPECT_FALSE(failed->values().has_value());
}

TEST(GlobalStepWaiterHook, WaitsForTheJobOrTheTimeout) {
  const CapturedLog log;
  SmallTraining training;
  std::int64_t job = 0;
  run_with(training,
           {GlobalStepWaiterHook{.wait_until_step = 3, .global_step = [&] { return job++; }}}, 2);
  EXPECT_EQ(training.clock.now().time_since_epoch(), std::chrono::milliseconds(3500));
  SmallTraining stuck;
  const Error error = error_from([&] {
    run_with(stuck, {GlobalStepWaiterHook{.wait_until_step = 3, .max_wait = seconds(10)}}, 5);
  });
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(stuck.value(), 0);
}

TEST(ProfilerHook, WritesATraceOfARangeOfSteps) {
  SmallTraining training;
  run_with(training, {ProfilerHook{.directory = "/profile", .steps = StepRange{2, 3}}}, 5);
  EXPECT_EQ(training.files->list("/profile"), (std::vector<std::string>{"timeline-3.json"}));
  const std::string trace = training.files->read("/profile/timeline-3.json");
  std::size_t steps = 0;
  for (std::size_t at = 0; (at = trace.find("\"step\"", at)) != std::string::npos; ++at) ++steps;
  EXPECT_EQ(steps, 4u) << trace;  // name and category of two
}

TEST(ProfilerHook, WritesSingleStepsAndAnUnfinishedRange) {
  SmallTraining training;
  run_with(training,
           {ProfilerHook{.directory = "/profile", .steps = StepRange{5, 9}, .every = {.steps = 3}}},
           5);
  EXPECT_EQ(training.files->list("/profile"),
            (std::vector<std::string>{"timeline-1.json", "timeline-4.json", "timeline-5.json"}));
}

TEST(SummarySaverHook, NeedsADirectory) {
  SmallTraining training;
  EXPECT_EQ(error_from([&] { run_with(training, {SummarySaverHook{}}, 2); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(SummarySaverHook, TwoHooksWriteAtDifferentRates) {
  SmallTraining training;
  const auto rare = SummarySaverHook{
      .every = {.steps = 4},
      .summaries = [](summary::SummaryWriter& writer, std::int64_t step, const StepValues& values) {
        writer.scalar("rare", values.number("loss"), step);
      }};
  {
    MonitoredTrainingSession session(training.state,
                                     {.hooks = {rare, StopAtStepHook{.last_step = 6}},
                                      .save_summaries = {.steps = 2},
                                      .log_step_count = {},
                                      .summary_dir = "/summaries"},
                                     training.environment());
    training.run(session);
    session.close();
  }
  EXPECT_EQ(scalars_in(*training.files, "/summaries"),
            (std::vector<std::string>{"loss@1", "rare@1", "loss@3", "loss@5", "rare@5"}));
}

}  // namespace
}  // namespace brigade::train
