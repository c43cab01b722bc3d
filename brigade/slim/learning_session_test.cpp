#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/shared_job.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/slim/learning.h"
#include "brigade/summary/summary_writer.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/variables/get_variable.h"

/// `learning::train` with a session: saving, resuming, summaries, hooks.
namespace brigade::slim::learning {
namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::MirroredStrategy;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

at::Tensor regression(const at::Tensor& x) {
  const variables::VariableOptions wide{.dtype = at::kDouble,
                                        .initializer = variables::ones_initializer()};
  const at::Tensor w = variables::get_variable("w", {{3}}, wide).local();
  layers::v1::losses::add_loss((x * w).sum(1).square().mean());
  return layers::v1::losses::get_total_loss();
}

/// A whole training, as a process creates it: 20 examples, shuffled, in batches of 3.
struct Process {
  explicit Process(std::shared_ptr<io::FileSystem> the_files, int replicas = 2)
      : files(std::move(the_files)),
        strategy(cpus(replicas)),
        train_op(create_train_op(
            strategy, regression,
            input::from_tensor_slices(at::arange(60, at::kDouble).view({20, 3}).sin())
                .shuffle(data::ShuffleOptions{.buffer_size = 7})
                .repeat(3)
                .batch(3),
            optim::Adam{.learning_rate = 0.1})) {}

  TrainOptions options(std::int64_t number_of_steps) const {
    return {.logdir = "/run",
            .number_of_steps = number_of_steps,
            .log_every_n_steps = 0,
            .files = files};
  }
  std::vector<double> weights() const {
    const at::Tensor w = train_op.variables().at(0).read().contiguous();
    return {w.const_data_ptr<double>(), w.const_data_ptr<double>() + w.numel()};
  }

  std::shared_ptr<io::FileSystem> files;
  MirroredStrategy strategy;
  TrainOp train_op;
};

std::shared_ptr<io::FileSystem> memory() {
  return std::make_shared<io::MemoryFileSystem>();
}

TEST(LearningSession, ResumesExactlyFromItsLogdir) {
  Process whole(memory());
  const auto loss = train(whole.train_op, whole.options(14));

  const auto files = memory();
  for (const std::int64_t steps : {4, 9, 14}) {
    Process part(files);
    const auto last = train(part.train_op, part.options(steps));
    EXPECT_EQ(part.train_op.global_step(), steps);
    if (steps < 14) continue;
    EXPECT_EQ(part.weights(), whole.weights());
    EXPECT_EQ(last, loss);
  }
  Process after(files);
  EXPECT_EQ(train(after.train_op, after.options(14)), std::nullopt) << "no steps are left";
  EXPECT_EQ(after.weights(), whole.weights());
}

TEST(LearningSession, SavesAtTheStartByTimeAndAtTheEnd) {
  Process process(memory());
  base::ManualClock clock;
  TrainOptions options = process.options(5);
  options.clock = &clock;
  options.save_interval_secs = std::chrono::seconds(2);
  options.train_step_fn = [&](const TrainOp& train_op) {
    clock.advance(std::chrono::seconds(1));
    return train_step(train_op);
  };
  train(process.train_op, options);
  std::vector<std::int64_t> steps;
  for (const io::Path& path : checkpoint::checkpoint_paths(*process.files, "/run"))
    steps.push_back(checkpoint::Checkpoint::open(process.files, path).step());
  EXPECT_THAT(steps, ElementsAre(0, 2, 4, 5));
}

TEST(LearningSession, SavesNothingIfDisabled) {
  Process process(memory());
  TrainOptions options = process.options(2);
  options.save_interval_secs.reset();
  options.save_summaries_secs.reset();
  EXPECT_TRUE(train(process.train_op, options).has_value());
  EXPECT_FALSE(process.files->exists("/run"));
}

TEST(LearningSession, WritesTheLossOrCustomSummaries) {
  Process process(memory());
  train(process.train_op, process.options(2));
  EXPECT_THAT(train::scalars_in(*process.files, "/run"), Contains("loss@1"));

  Process other(memory());
  TrainOptions options = other.options(2);
  options.summary_op = [](summary::SummaryWriter& writer, std::int64_t step,
                          const train::StepValues& values) {
    writer.scalar("twice", 2 * values.number("loss"), step);
  };
  train(other.train_op, options);
  EXPECT_THAT(train::scalars_in(*other.files, "/run"), Contains("twice@1"));
  EXPECT_THAT(train::scalars_in(*other.files, "/run"), Not(Contains("loss@1")));
}

TEST(LearningSession, InitializesOnlyWithoutACheckpoint) {
  const auto files = memory();
  for (const int run : {1, 2}) {
    Process process(files);
    int calls = 0;
    TrainOptions options = process.options(run);
    options.init_fn = [&](train::TrainingState&) {
      ++calls;
      process.train_op.variables().at(0).assign(at::full({3}, 7.0, at::kDouble));
    };
    options.hooks = {};
    train(process.train_op, options);
    EXPECT_EQ(calls, run == 1 ? 1 : 0);
    EXPECT_GT(process.weights()[0], 5) << "starts from seven, not from one";
  }
}

/// Records the loss of each step.
class Losses final : public train::SessionRunHook {
 public:
  void after_run(train::SessionContext& context, const train::StepValues& values) override {
    seen.emplace_back(context.global_step(), values.number("loss"));
  }
  std::vector<std::pair<std::int64_t, double>> seen;
};

TEST(LearningSession, HooksSeeStepsAndLosses) {
  Process process(memory());
  const auto losses = std::make_shared<Losses>();
  TrainOptions options = process.options(3);
  options.hooks = {losses};
  const auto last = train(process.train_op, options);
  ASSERT_EQ(losses->seen.size(), 3u);
  EXPECT_EQ(losses->seen.front().first, 1);
  EXPECT_EQ(losses->seen.back().second, *last);
}

TEST(LearningSession, AFailedStepRestoresTheLastCheckpoint) {
  Process whole(memory());
  train(whole.train_op, whole.options(6));
  Process process(memory());
  const train::CapturedLog log;
  TrainOptions options = process.options(6);
  int failures = 0;
  options.train_step_fn = [&](const TrainOp& train_op) {
    if (train_op.global_step() == 4 && failures++ < 2)
      throw Error(ErrorCode::kUnavailable, "a peer is gone");
    return train_step(train_op);
  };
  train(process.train_op, options);
  EXPECT_EQ(failures, 3) << "two failures and a successful step";
  EXPECT_EQ(process.weights(), whole.weights());
  failures = -100;
  options.number_of_steps = 4;
  options.max_retries = 1;
  EXPECT_EQ(train(process.train_op, options), std::nullopt) << "it is at step 6 already";
}

TEST(LearningSession, SavesAtTheEndOfTheData) {
  const auto files = memory();
  Process process(files);
  TrainOptions options = process.options(1);
  options.number_of_steps.reset();
  train(process.train_op, options);
  EXPECT_EQ(process.train_op.global_step(), 20);
  Process again(files);
  EXPECT_EQ(train(again.train_op, options), std::nullopt) << "no batch is used twice";
  EXPECT_EQ(again.weights(), process.weights());
}

TEST(LearningSession, RefusesADelayedStartOfASyncOptimizer) {
  Process process(memory());
  TrainOptions options = process.options(1);
  options.startup_delay_steps = 10;
  options.sync_optimizer = true;
  EXPECT_EQ(error_from([&] { train(process.train_op, options); }).code(),
            ErrorCode::kInvalidArgument);
  options.sync_optimizer = false;
  options.startup_delay_steps = -1;
  EXPECT_EQ(error_from([&] { train(process.train_op, options); }).code(),
            ErrorCode::kInvalidArgument);
}

data::Dataset<at::Tensor> waves() {
  return input::from_tensor_slices(at::arange(60, at::kDouble).view({20, 3}).sin()).batch(4);
}

TEST(LearningSession, WorkersWithCollectivesStartTogetherWhateverTheDelay) {
  distribute::run_workers({1, 1}, [](distribute::MultiWorkerMirroredStrategy& strategy) {
    const TrainOp train_op = create_train_op(strategy, regression, waves(), optim::Adam{});
    TrainOptions options{.number_of_steps = 3, .log_every_n_steps = 0};
    options.startup_delay_steps = 2;
    if (!strategy.is_chief()) options.role = train::SessionRole::kWorker;
    EXPECT_TRUE(train(train_op, options).has_value());
    EXPECT_EQ(train_op.global_step(), 3);
  });
}

// A failed push may be completed by the next one.
TEST(LearningSession, AStepThatPushesToServersIsNotRepeated) {
  distribute::SharedJob job;
  distribute::SharedJobStrategy strategy(job, {.index = 0, .count = 2});
  const TrainOp train_op = create_train_op(strategy, regression, waves(), optim::Sgd{});
  int attempts = 0;
  TrainOptions options{.number_of_steps = 3, .log_every_n_steps = 0};
  options.train_step_fn = [&](const TrainOp&) -> TrainStepResult {
    ++attempts;
    throw Error(ErrorCode::kUnavailable, "the server is away");
  };
  EXPECT_EQ(error_from([&] { train(train_op, options); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(attempts, 1);
}

TEST(LearningSession, SavesAdditionalState) {
  const auto files = memory();
  std::int64_t count = 41;
  const auto add = [&](train::TrainingState& state) {
    state.add({.name = "part/count",
               .save =
                   [&] {
                     train::CheckpointableState saved{.tree = io::StateTree::dict()};
                     saved.tree["count"] = count;
                     return saved;
                   },
               .restore =
                   [&](const train::CheckpointableState& saved) {
                     count = saved.tree.at("count").as_int64();
                   }});
  };
  for (const std::int64_t expected : {42, 43}) {
    Process process(files);
    TrainOptions options = process.options(expected);
    options.number_of_steps = expected - 41;
    options.add_to_state = add;
    options.train_step_fn = [&](const TrainOp& train_op) {
      ++count;
      return train_step(train_op);
    };
    train(process.train_op, options);
    EXPECT_EQ(count, expected);
    count = 0;  // a new process
  }
}

}  // namespace
}  // namespace brigade::slim::learning
