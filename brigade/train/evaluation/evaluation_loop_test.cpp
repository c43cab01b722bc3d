#include "brigade/train/evaluation/evaluation_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/concurrency/staging_area.h"
#include "brigade/train/hooks/stop_at_step_hook.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/summaries_in.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using testing::ElementsAre;

/// An evaluation that returns the weight of a small training.
Evaluation of_value(const SmallTraining& training) {
  return {.step = []() -> std::optional<StepValues> { return std::nullopt; },
          .final_values =
              [&] {
                return StepValues{{"value", training.model->value}};
              }};
}

SessionOptions saving_each_step(std::int64_t last_step) {
  return {.checkpoint_dir = "/run",
          .hooks = {StopAtStepHook{.last_step = last_step}},
          .save_checkpoints = {.steps = 1},
          .save_summaries = {},
          .log_step_count = {}};
}

void train(const std::shared_ptr<io::FileSystem>& files, std::int64_t last_step) {
  SmallTraining training(files);
  MonitoredTrainingSession session(training.state, saving_each_step(last_step),
                                   training.environment());
  training.run(session);
  session.close();
}

TEST(EvaluationLoop, EvaluatesExistingCheckpointsAndEndsAtTheTimeout) {
  SmallTraining evaluator;
  train(evaluator.files, 3);
  const auto last = evaluation_loop(
      evaluator.state, "/run", of_value(evaluator),
      {.each = {.environment = evaluator.environment()}, .timeout = std::chrono::seconds(5)});
  EXPECT_EQ(last->step, 3);
  EXPECT_EQ(last->results.at("value"), 3);
  const auto waited = evaluator.clock.now() - base::ManualClock().now();
  EXPECT_EQ(waited, std::chrono::seconds(60 + 5)) << "the interval, and then the timeout";
}

TEST(EvaluationLoop, EvaluatesEachNewCheckpointOfARunningTrainingOnce) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  concurrency::StagingArea<std::int64_t> evaluated({.name = "evaluated steps", .capacity = 1});
  const concurrency::CancelToken done;
  std::vector<std::pair<std::int64_t, double>> seen;
  std::thread evaluator([&] {
    SmallTraining process(files);
    evaluation_loop(
        process.state, "/run", of_value(process),
        {.each = {.summary_dir = "/run/eval", .cancel = done, .environment = {.files = files}},
         .interval = std::chrono::milliseconds(0),
         .timeout = std::chrono::seconds(30),
         .poll = std::chrono::milliseconds(1),
         .on_evaluated = [&](const EvaluationReport& each) {
           seen.emplace_back(each.step, each.results.at("value"));
           evaluated.put(each.step, {.cancel = done});
         }});
  });
  {
    SmallTraining training(files);
    MonitoredTrainingSession session(training.state, saving_each_step(100), training.environment());
    for (std::int64_t step = 0; step < 5; ++step) {
      EXPECT_EQ(evaluated.get({.cancel = done}), step) << "the checkpoint after this step";
      session.run(training.step_function());
    }
    EXPECT_EQ(evaluated.get({.cancel = done}), 5);
    session.request_stop(AtStop::kDiscard);
  }
  done.cancel();
  evaluator.join();
  std::vector<std::pair<std::int64_t, double>> expected;
  for (int step = 0; step <= 5; ++step) expected.emplace_back(step, step);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(files->list("/run/eval").size(), 1u) << "one event file for all";
  EXPECT_THAT(scalars_in(*files, "/run/eval"),
              ElementsAre("value@0", "value@1", "value@2", "value@3", "value@4", "value@5"));
}

TEST(EvaluationLoop, EndsAfterTheMaximumNumberOfEvaluations) {
  SmallTraining evaluator;
  train(evaluator.files, 1);
  std::vector<std::int64_t> steps;
  EvaluationLoopOptions options{.each = {.environment = evaluator.environment()},
                                .max_number_of_evaluations = 2};
  options.on_evaluated = [&](const EvaluationReport& each) {
    steps.push_back(each.step);
    train(evaluator.files, each.step + 1);
  };
  EXPECT_EQ(evaluation_loop(evaluator.state, "/run", of_value(evaluator), options)->step, 2);
  EXPECT_THAT(steps, ElementsAre(1, 2));
  options.max_number_of_evaluations = 0;
  EXPECT_EQ(error_from([&] {
              evaluation_loop(evaluator.state, "/run", of_value(evaluator), options);
            }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(EvaluationLoop, AsksWhetherTheTrainingHasEnded) {
  SmallTraining evaluator;
  int asked = 0;
  const auto last =
      evaluation_loop(evaluator.state, "/run", of_value(evaluator),
                      {.each = {.environment = evaluator.environment()},
                       .timeout = std::chrono::seconds(5),
                       .timeout_fn = [&] {
                         if (++asked == 2) train(evaluator.files, 4);
                         return asked < 3 ? AfterTimeout::kKeepWaiting : AfterTimeout::kEnd;
                       }});
  EXPECT_EQ(last->step, 4);
  EXPECT_EQ(asked, 3);
}

TEST(EvaluationLoop, SkipsACheckpointThatTheTrainingRemoved) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  SmallTraining evaluator(files);
  const CapturedLog log;
  train(files, 2);
  Evaluation evaluation = of_value(evaluator);
  std::vector<std::int64_t> evaluated_steps;
  evaluation.begin = [&] {
    evaluated_steps.push_back(evaluator.state.global_step());
    if (evaluated_steps.size() > 1) return;
    train(files, 20);  // keeps the last 5
    throw Error(ErrorCode::kNotFound, "a file is gone");
  };
  const auto last = evaluation_loop(
      evaluator.state, "/run", evaluation,
      {.each = {.environment = evaluator.environment()}, .timeout = std::chrono::seconds(5)});
  EXPECT_THAT(evaluated_steps, ElementsAre(2, 20));
  EXPECT_EQ(last->step, 20);
  EXPECT_TRUE(log.has("removed before it could be evaluated"));
}

TEST(EvaluationLoop, CancellingDropsTheCurrentEvaluation) {
  SmallTraining evaluator;
  train(evaluator.files, 2);
  const concurrency::CancelToken cancel;
  Evaluation evaluation = of_value(evaluator);
  evaluation.begin = [&] { cancel.cancel(); };
  EXPECT_EQ(evaluation_loop(evaluator.state, "/run", evaluation,
                            {.each = {.cancel = cancel, .environment = evaluator.environment()}}),
            std::nullopt);
}

TEST(EvaluationLoop, RethrowsAnErrorOfAnEvaluation) {
  SmallTraining evaluator;
  train(evaluator.files, 2);
  Evaluation evaluation = of_value(evaluator);
  evaluation.begin = [] { throw Error(ErrorCode::kInvalidArgument, "a wrong shape"); };
  EXPECT_EQ(error_from([&] {
              evaluation_loop(evaluator.state, "/run", evaluation,
                              {.each = {.environment = evaluator.environment()}});
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::train
