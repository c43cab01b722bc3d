#include "brigade/slim/learning.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/get_variable.h"

namespace brigade::slim::learning {
namespace {

using testing::ElementsAre;

/// Captures log lines while it lives.
class Log {
 public:
  Log() {
    base::set_log_sink([this](base::LogLevel, std::string_view text) { lines.emplace_back(text); });
  }
  ~Log() { base::set_log_sink({}); }
  std::vector<std::string> lines;
};

/// A training of `steps` steps whose loss is 1, 0.99, ...: a weight of 1 that loses 0.01 a step.
struct Training {
  explicit Training(int steps, const TrainOpOptions& options = {})
      : train_op(make(steps, options)) {}

  TrainOp make(int steps, const TrainOpOptions& options) {
    const auto loss = [](const at::Tensor&) {
      const variables::VariableOptions one{.dtype = at::kDouble,
                                           .initializer = variables::ones_initializer()};
      return variables::get_variable("w", {{1}}, one).local().sum();
    };
    auto source = [steps]() mutable -> std::optional<at::Tensor> {
      if (steps-- == 0) return std::nullopt;
      return at::zeros({1, 1});
    };
    return create_train_op<at::Tensor>(strategy, loss, source, optim::Sgd{.learning_rate = 0.01},
                                       options);
  }

  distribute::OneDeviceStrategy strategy{"cpu:0"};
  TrainOp train_op;
};

TEST(Learning, LogsLikeSlimAndReturnsTheFinalLoss) {
  Training training(5);
  base::ManualClock clock;
  const Log log;
  const auto step = [&](const TrainOp& train_op) {
    clock.advance(std::chrono::milliseconds(12));
    return train_step(train_op);
  };
  const auto loss =
      train(training.train_op, {.log_every_n_steps = 2, .train_step_fn = step, .clock = &clock});
  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(*loss, 0.96, 1e-12);
  EXPECT_THAT(log.lines, ElementsAre("global step 2: loss = 0.9900 (0.012 sec/step)",
                                     "global step 4: loss = 0.9700 (0.012 sec/step)"));
}

TEST(Learning, LogsEveryStepByDefaultAndNoneForZero) {
  Training training(4);
  const Log log;
  train(training.train_op, {.number_of_steps = 2});
  EXPECT_EQ(log.lines.size(), 2u);
  train(training.train_op, {.log_every_n_steps = 0});
  EXPECT_EQ(log.lines.size(), 2u);
}

TEST(Learning, EndsAtTheGlobalStepAndResumesFromIt) {
  Training training(10);
  const TrainOptions quiet{.number_of_steps = 3, .log_every_n_steps = 0};
  train(training.train_op, quiet);
  EXPECT_EQ(training.train_op.global_step(), 3);
  EXPECT_EQ(train(training.train_op, quiet), std::nullopt);
  EXPECT_EQ(training.train_op.global_step(), 3);
  train(training.train_op, {.number_of_steps = 5, .log_every_n_steps = 0});
  EXPECT_EQ(training.train_op.global_step(), 5);
}

TEST(Learning, ADatasetThatEndsEndsTheTraining) {
  Training training(3);
  EXPECT_NEAR(*train(training.train_op, {.number_of_steps = 100, .log_every_n_steps = 0}), 0.98,
              1e-12);
  EXPECT_EQ(training.train_op.global_step(), 3);
}

TEST(Learning, AStepFunctionMayStop) {
  Training training(10);
  const auto once = [](const TrainOp& train_op) {
    return TrainStepResult{.loss = train_op(), .should_stop = true};
  };
  train(training.train_op, {.log_every_n_steps = 0, .train_step_fn = once});
  EXPECT_EQ(training.train_op.global_step(), 1);
}

TEST(Learning, CancellingEndsAfterTheCurrentStep) {
  Training training(10);
  const concurrency::CancelToken cancel;
  const auto step = [&](const TrainOp& train_op) {
    if (train_op.global_step() == 1) cancel.cancel();
    return train_step(train_op);
  };
  EXPECT_TRUE(
      train(training.train_op, {.log_every_n_steps = 0, .train_step_fn = step, .cancel = cancel}));
  EXPECT_EQ(training.train_op.global_step(), 2);
  EXPECT_EQ(train(training.train_op, {.cancel = cancel}), std::nullopt);
}

/// Trains two steps, the first of which fails `failures` times; returns the number of attempts.
int tries(int failures, ErrorCode code, int max_retries) {
  Training training(2);
  const Log log;
  int calls = 0;
  const auto step = [&](const TrainOp& train_op) {
    if (calls++ < failures) {
      if (code == ErrorCode::kAborted) throw comm::StepAbandoned(1, {1}, "a peer is gone");
      throw Error(code, "a peer is gone");
    }
    return train_step(train_op);
  };
  try {
    train(training.train_op,
          {.log_every_n_steps = 0, .train_step_fn = step, .max_retries = max_retries});
    EXPECT_EQ(training.train_op.global_step(), 2);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(training.train_op.global_step(), 0);
  }
  return calls;
}

TEST(Learning, RetriesRecoverableErrorsUpToTheLimit) {
  EXPECT_EQ(tries(2, ErrorCode::kAborted, 3), 2 + 3);  // two steps and the end of the data
  EXPECT_EQ(tries(3, ErrorCode::kUnavailable, 3), 3 + 3);
  EXPECT_EQ(tries(100, ErrorCode::kUnavailable, 3), 4);
  EXPECT_EQ(tries(100, ErrorCode::kAborted, 0), 1);
  EXPECT_EQ(tries(1, ErrorCode::kInvalidArgument, 3), 1);
}

/// Trains with a loss that throws from its second call on; returns how often it threw.
template <class Exception>
int calls_until_thrown(const Exception& thrown) {
  int calls = 0;
  int failures = 0;
  const auto loss = [&](const at::Tensor&) {
    if (calls++ > 0) {
      ++failures;
      throw thrown;
    }
    return variables::get_variable("w", {{1}}, {.dtype = at::kDouble}).local().sum();
  };
  const auto source = [] { return std::optional(at::zeros({1, 1})); };
  distribute::OneDeviceStrategy strategy{"cpu:0"};
  const auto train_op =
      create_train_op<at::Tensor>(strategy, loss, source, optim::Sgd{.learning_rate = 0.01});
  EXPECT_THROW(train(train_op, {.log_every_n_steps = 0}), Error);
  return failures;
}

TEST(Learning, ErrorsOfTheProgramAreThrownImmediatelyAndALostPeerIsRetried) {
  const Log log;
  EXPECT_EQ(calls_until_thrown(std::runtime_error("a bug")), 1);
  EXPECT_EQ(calls_until_thrown(Error(ErrorCode::kAborted, "my own check failed")), 1);
  EXPECT_EQ(calls_until_thrown(Error(ErrorCode::kUnavailable, "a peer is gone")), 1 + 3);
  EXPECT_EQ(calls_until_thrown(comm::StepAbandoned(1, {1}, "rank 1 failed")), 1 + 3);
}

TEST(Learning, TheTrainOpDecidesWhetherALossMustBeFinite) {
  Training training(2);
  const Log log;
  const auto step = [](const TrainOp& train_op) {
    train_op();
    return TrainStepResult{.loss = at::full({}, std::numeric_limits<double>::quiet_NaN()),
                           .should_stop = true};
  };
  EXPECT_TRUE(std::isnan(*train(training.train_op, {.train_step_fn = step})));
  EXPECT_EQ(log.lines.size(), 1u);
}

TEST(Learning, RefusesInvalidOptions) {
  Training training(1);
  EXPECT_THROW(train(training.train_op, {.number_of_steps = 0}), Error);
  EXPECT_THROW(train(training.train_op, {.log_every_n_steps = -1}), Error);
  EXPECT_THROW(train(training.train_op, {.max_retries = -1}), Error);
  EXPECT_EQ(training.train_op.global_step(), 0);
  Training uncounted(1, {.count_steps = false});
  EXPECT_THROW(train(uncounted.train_op, {.number_of_steps = 1}), Error);
}

}  // namespace
}  // namespace brigade::slim::learning
