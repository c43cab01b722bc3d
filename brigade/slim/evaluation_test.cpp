#include "brigade/slim/evaluation.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/metrics/mean.h"
#include "brigade/slim/layers.h"
#include "brigade/train/testing/small_session.h"

namespace brigade::slim::evaluation {
namespace {

using distribute::cpus;
using distribute::error_from;
using testing::ElementsAre;
using testing::Pair;

/// A model of one weight, and an evaluation of it over the numbers 0 to 9, two at a time.
struct Job {
  explicit Job(int replicas = 2) : strategy(cpus(replicas)) {
    const auto scope = strategy.scope();
    weight.emplace(slim::model_variable(
        "weight", {{1}}, {.dtype = at::kDouble, .initializer = variables::zeros_initializer()}));
    mean = std::make_unique<metrics::Mean>("mean");
  }

  void save(std::int64_t step) {
    const at::Tensor before = weight->read().clone();
    weight->assign(at::full({1}, static_cast<double>(step), at::kDouble));
    checkpoint::Saver(files, {.directory = "/run"}).save(step, {.variables = {*weight}});
    weight->assign(before);
  }

  EvalOptions options() {
    return {.num_evals = 5,
            .initial_op = [this] { next = 0; },
            .eval_op = [this]() -> std::optional<StepValues> {
              if (next == 10) return std::nullopt;
              const at::Tensor pair = at::arange(next, next + 2, at::kDouble);
              next += 2;
              strategy.run([&](distribute::ReplicaContext& context) {
                mean->update_state(pair.narrow(0, context.id % 2, 1) * weight->local());
              });
              return StepValues{};
            },
            .metrics = {mean.get()},
            .environment = {.files = files,
                            .clock = &clock,
                            .wait = [this](auto time, const auto&) { clock.advance(time); }}};
  }

  std::shared_ptr<io::FileSystem> files = std::make_shared<io::MemoryFileSystem>();
  base::ManualClock clock;
  distribute::MirroredStrategy strategy;
  std::optional<variables::Variable> weight;
  std::unique_ptr<metrics::Mean> mean;
  std::int64_t next = 0;
};

TEST(SlimEvaluation, EvaluatesNumEvalsBatchesOfACheckpoint) {
  const train::CapturedLog log;
  Job job;
  job.save(3);
  const EvaluationReport all = evaluate_once(job.strategy, "/run/ckpt-3", "/logs", job.options());
  EXPECT_THAT(all.results, ElementsAre(Pair("mean", 3 * 4.5)));
  EXPECT_EQ(all.step, 3);
  EXPECT_THAT(train::scalar_values_in(*job.files, "/logs"), ElementsAre(Pair("mean@3", 13.5)));
  EvalOptions few = job.options();
  few.num_evals = 2;
  EXPECT_THAT(evaluate_once(job.strategy, "/run", "", few).results,
              ElementsAre(Pair("mean", 3 * 1.5)));
  EXPECT_TRUE(log.has("Evaluation [2/2]"));
}

TEST(SlimEvaluation, AFinalOpWithoutEvalOpIsEnough) {
  const train::CapturedLog log;
  Job job;
  job.save(3);
  EvalOptions options = job.options();
  options.eval_op = {};
  options.metrics = {};
  options.final_op = [&] { return StepValues{{"weight", job.weight->read()}}; };
  EXPECT_THAT(evaluate_once(job.strategy, "/run", "", options).results,
              ElementsAre(Pair("weight", 3)));
}

TEST(SlimEvaluation, RestoresOnlyTheGivenVariables) {
  const train::CapturedLog log;
  Job job;
  job.save(3);
  EvalOptions options = job.options();
  const auto scope = job.strategy.scope();
  options.variables_to_restore = {slim::model_variable("new", {{1}})};
  EXPECT_EQ(error_from([&] { evaluate_once(job.strategy, "/run", "", options); }).code(),
            ErrorCode::kNotFound);
  options.variables_to_restore = std::vector<variables::Variable>();
  EXPECT_EQ(error_from([&] { evaluate_once(job.strategy, "/run", "", options); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(job.weight->read().item<double>(), 0);
}

TEST(SlimEvaluation, TheLoopEvaluatesNewCheckpoints) {
  const train::CapturedLog log;
  Job job;
  EvalLoopOptions options{.evaluation = job.options(), .timeout = std::chrono::seconds(5)};
  std::int64_t step = 0;
  options.timeout_fn = [&] {
    if (step == 3) return AfterTimeout::kEnd;
    job.save(++step);
    return AfterTimeout::kKeepWaiting;
  };
  const auto last = evaluation_loop(job.strategy, "/run", "/logs", options);
  EXPECT_EQ(last->step, 3);
  EXPECT_THAT(train::scalar_values_in(*job.files, "/logs"),
              ElementsAre(Pair("mean@1", 4.5), Pair("mean@2", 9), Pair("mean@3", 13.5)));
  EXPECT_EQ(job.files->list("/logs").size(), 1u);
}

TEST(SlimEvaluation, WaitsForCheckpointsUnderSlimsNames) {
  const train::CapturedLog log;
  Job job;
  const train::SessionEnvironment environment = job.options().environment;
  EXPECT_EQ(wait_for_new_checkpoint("/run", std::nullopt,
                                    {.timeout = std::chrono::seconds(3),
                                     .poll = std::chrono::seconds(2),
                                     .environment = environment}),
            std::nullopt);
  job.save(1);
  auto checkpoints = checkpoints_iterator(
      "/run", {.timeout = std::chrono::seconds(3), .environment = environment});
  EXPECT_EQ(checkpoints.next()->step(), 1);
  EXPECT_EQ(checkpoints.next(), std::nullopt);
}

}  // namespace
}  // namespace brigade::slim::evaluation
