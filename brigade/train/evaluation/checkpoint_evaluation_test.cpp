#include "brigade/train/evaluation/checkpoint_evaluation.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/concurrency/staging_area.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/synthetic.h"
#include "brigade/layers/losses.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/metrics/mean.h"
#include "brigade/optim/adam.h"
#include "brigade/train/hooks/final_ops_hook.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/hooks/summary_hooks.h"
#include "brigade/train/testing/small_session.h"

namespace brigade::train {

namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using testing::ElementsAre;
using testing::Pair;

/// A net whose evaluation needs statistics that each replica collects in training.
struct StatNet : torch::nn::Module {
  StatNet() {
    weight = register_parameter("weight", at::rand({3, 4}) - 0.5);
    mean = register_buffer("mean", at::zeros({4}));
  }
  at::Tensor forward(const at::Tensor& features) {
    if (is_training() && features.size(0) > 0) {
      const at::NoGradGuard no_grad;
      mean.mul_(0.5).add_(features.mean(0), 0.5);
    }
    return at::linear(features - mean, weight);
  }
  at::Tensor weight, mean;
};

/// A model and its evaluation; a new object stands for a new process.
struct Job {
  explicit Job(distribute::Strategy& the_strategy)
      : strategy(the_strategy),
        model(strategy.create<StatNet>()),
        adam(strategy.optimizer(model, optim::Adam{.learning_rate = 0.05})),
        state(strategy) {
    const auto scope = strategy.scope();
    loss = std::make_unique<metrics::Mean>("loss");
    accuracy = std::make_unique<metrics::SparseCategoricalAccuracy>("accuracy");
    state.add_model(model);
  }

  void train(int steps) {
    state.add_optimizer("adam", adam);
    for (const auto& batch : strategy.distribute(input::synthetic(70, {4}, 3).batch(7))) {
      if (state.global_step() == steps) break;
      strategy.run(
          [&](distribute::ReplicaContext&, const input::LabeledBatch& replica_batch) {
            adam.minimize(layers::losses::sparse_categorical_crossentropy(
                model(replica_batch.features), replica_batch.labels));
          },
          batch);
      state.advance();
    }
  }

  Evaluation evaluation() {
    return {
        .begin =
            [this] {
              model.eval();
              iterator.emplace(test.iterator());
            },
        .step = [this]() -> std::optional<StepValues> {
          const auto batch = iterator->next();
          if (!batch) return std::nullopt;
          const auto sums = strategy.run(
              [&](distribute::ReplicaContext&, const input::LabeledBatch& replica_batch) {
                const at::Tensor logits = model(replica_batch.features);
                EXPECT_FALSE(logits.requires_grad());
                loss->update_state(layers::losses::sparse_categorical_crossentropy(
                    logits, replica_batch.labels, {.reduction = layers::losses::Reduction::kNone}));
                accuracy->update_state(replica_batch.labels, logits);
                return logits.sum();
              },
              *batch);
          return StepValues{{"sum", strategy.reduce(comm::ReduceOp::kSum, sums)}};
        },
        .metrics = {loss.get(), accuracy.get()}};
  }

  /// The results of the current model, without a checkpoint.
  Logs live() {
    const at::NoGradGuard no_grad;
    loss->reset_state();
    accuracy->reset_state();
    Evaluation all = evaluation();
    all.begin();
    while (all.step()) {
    }
    return {{"accuracy", accuracy->result()}, {"loss", loss->result()}};
  }

  distribute::Strategy& strategy;
  distribute::Replicated<StatNet> model;
  distribute::Optimizer adam;
  TrainingState state;
  distribute::DistributedDataset<input::LabeledBatch> test =
      strategy.distribute(input::synthetic(23, {4}, 3).batch(5));
  std::optional<distribute::DistributedIterator<input::LabeledBatch>> iterator;
  std::unique_ptr<metrics::Mean> loss;
  std::unique_ptr<metrics::SparseCategoricalAccuracy> accuracy;
};

/// Saves `contents` as a checkpoint of `step`; returns its path.
io::Path save(const std::shared_ptr<io::FileSystem>& files, std::int64_t step,
              const checkpoint::Contents& contents) {
  checkpoint::Saver saver(files, {.directory = "/run"});
  saver.save(step, contents);
  return saver.checkpoints().back();
}

EvaluationOptions in(const std::shared_ptr<io::FileSystem>& files) {
  return {.environment = {.files = files}};
}

TEST(EvaluateOnce, EqualsTheLiveModelUnderEveryStrategy) {
  using Made = std::unique_ptr<distribute::Strategy>;
  const std::vector<std::function<Made()>> makers = {
      [] { return Made(std::make_unique<distribute::OneDeviceStrategy>("cpu:0")); },
      [] { return Made(std::make_unique<distribute::MirroredStrategy>(cpus(2))); },
      [] {
        return Made(
            std::make_unique<distribute::CentralStorageStrategy>(distribute::central_cpus(2)));
      }};
  for (const auto& make : makers) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const Made strategy = make();
    Job trained(*strategy);
    trained.train(4);
    const io::Path path = save(files, 4, trained.state.contents());
    const Logs live = trained.live();

    const Made other = make();
    Job fresh(*other);
    ASSERT_NE(fresh.live(), live);
    const EvaluationReport evaluated =
        evaluate_once(fresh.state, path, fresh.evaluation(), in(files));
    EXPECT_EQ(evaluated.results, live) << strategy->name();
    EXPECT_EQ(evaluated.step, 4);
    EXPECT_EQ(evaluated.batches, 5);
    EXPECT_EQ(evaluated.checkpoint, path);
    EXPECT_EQ(evaluate_once(fresh.state, "/run", fresh.evaluation(), in(files)).results, live)
        << "a second time, by the directory";
  }
}

TEST(EvaluateOnce, GivesTheSameResultsOnOtherReplicas) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const CapturedLog log;
  distribute::OneDeviceStrategy one("cpu:0");
  Job trained(one);
  trained.train(4);
  const io::Path path = save(files, 4, trained.state.contents());
  const Logs live = trained.live();
  distribute::MirroredStrategy mirrored(cpus(3));
  Job fresh(mirrored);
  const Logs results = evaluate_once(fresh.state, path, fresh.evaluation(), in(files)).results;
  EXPECT_EQ(results.at("accuracy"), live.at("accuracy"));
  EXPECT_NEAR(results.at("loss"), live.at("loss"), 1e-6);
}

/// An evaluation with `batches` steps and one value, of the small training, which needs no data.
struct Counting {
  explicit Counting(int the_batches) : batches(the_batches) {}
  Evaluation evaluation() {
    return {.begin = [this] { seen = 0; },
            .step = [this]() -> std::optional<StepValues> {
              if (seen == batches) return std::nullopt;
              ++seen;
              return StepValues{};
            },
            .final_values =
                [this] {
                  return StepValues{{"seen", at::full({}, seen)}};
                }};
  }
  int batches;
  int seen = 0;
};

TEST(EvaluateOnce, AcceptsACheckpointOfVariablesOnly) {
  SmallTraining saved;
  saved.step();
  save(saved.files, 9, {.variables = {saved.model.variables()[0]}});
  SmallTraining fresh(saved.files);
  Counting counting(2);
  EXPECT_EQ(evaluate_once(fresh.state, "/run", counting.evaluation(), in(saved.files)).step, 9);
  EXPECT_EQ(fresh.value(), 1);
}

/// Records its calls with their steps.
class Steps final : public SessionRunHook {
 public:
  void begin(SessionContext&) override { seen.emplace_back("begin"); }
  void after_create_session(SessionContext& context) override { record("create", context); }
  void before_run(SessionContext& context) override { record("before", context); }
  void after_run(SessionContext& context, const StepValues&) override { record("after", context); }
  void end(SessionContext& context) override {
    record(context.has_failed() ? "failed" : "end", context);
  }
  std::vector<std::string> seen;

 private:
  void record(const std::string& call, SessionContext& context) {
    seen.push_back(base::str_cat(call, context.global_step()));
  }
};

TEST(EvaluateOnce, CallsHooksWithTheStepOfTheCheckpoint) {
  SmallTraining training;
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  Counting counting(1);
  const auto steps = std::make_shared<Steps>();
  EvaluationOptions options = in(training.files);
  options.hooks = {steps};
  evaluate_once(training.state, "/run", counting.evaluation(), options);
  EXPECT_THAT(steps->seen, ElementsAre("begin", "create7", "before7", "after7", "before7", "end7"));
}

TEST(EvaluateOnce, StopsAfterNEvals) {
  SmallTraining training;
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  Counting counting(100);
  const CapturedLog log;
  EvaluationOptions options = in(training.files);
  options.hooks = {StopAfterNEvalsHook{.num_evals = 30}};
  for (int time = 0; time < 2; ++time) {
    const EvaluationReport evaluated =
        evaluate_once(training.state, "/run", counting.evaluation(), options);
    EXPECT_EQ(evaluated.batches, 30);
    EXPECT_THAT(evaluated.results, ElementsAre(Pair("seen", 30)));
  }
  EXPECT_EQ(log.lines().front(), "Evaluation [3/30]");
  EXPECT_EQ(log.lines().size(), 20u);
  EXPECT_THROW(StopAfterNEvalsHook{}.hook(), Error);
}

TEST(EvaluateOnce, WritesResultsAndHookValuesAtTheStepOfTheCheckpoint) {
  SmallTraining training;
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  Counting counting(3);
  EvaluationOptions options = in(training.files);
  options.summary_dir = "/run/eval";
  options.hooks = {
      SummaryAtEndHook{.directory = "/run/other", .values = [](SessionContext& context) {
                         return StepValues{{"step", at::full({}, context.global_step())}};
                       }}};
  evaluate_once(training.state, "/run", counting.evaluation(), options);
  EXPECT_THAT(scalar_values_in(*training.files, "/run/eval"), ElementsAre(Pair("seen@7", 3)));
  EXPECT_THAT(scalar_values_in(*training.files, "/run/other"), ElementsAre(Pair("step@7", 7)));
}

TEST(EvaluateOnce, AnErrorEndsTheHooksAndWritesNothing) {
  SmallTraining training;
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  const auto steps = std::make_shared<Steps>();
  EvaluationOptions options = in(training.files);
  options.hooks = {steps};
  const Evaluation broken{.step = []() -> std::optional<StepValues> {
    throw Error(ErrorCode::kUnavailable, "no data");
  }};
  EXPECT_TRUE(mentions(error_from([&] { evaluate_once(training.state, "/run", broken, options); }),
                       "no data"));
  EXPECT_EQ(steps->seen.back(), "failed7");
}

TEST(EvaluateOnce, CanBeCancelled) {
  SmallTraining training;
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  Counting counting(10);
  Evaluation evaluation = counting.evaluation();
  EvaluationOptions options = in(training.files);
  const auto inner = evaluation.step;
  evaluation.step = [&] {
    if (counting.seen == 2) options.cancel.cancel();
    return inner();
  };
  const Error error =
      error_from([&] { evaluate_once(training.state, "/run", evaluation, options); });
  EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  EXPECT_EQ(counting.seen, 3);
}

TEST(EvaluateOnce, RefusesInvalidArguments) {
  SmallTraining training;
  const auto code_of = [&](const Evaluation& evaluation) {
    return error_from(
               [&] { evaluate_once(training.state, "/run", evaluation, in(training.files)); })
        .code();
  };
  Counting counting(1);
  EXPECT_EQ(code_of(counting.evaluation()), ErrorCode::kNotFound) << "no checkpoint";
  save(training.files, 7, {.variables = {training.model.variables()[0]}});
  EXPECT_EQ(code_of({}), ErrorCode::kInvalidArgument) << "no functions";
  const metrics::Mean seen("seen");
  Evaluation twice = counting.evaluation();
  twice.metrics = {&seen};
  EXPECT_EQ(code_of(twice), ErrorCode::kInvalidArgument) << "two results with the same name";
}

}  // namespace

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
