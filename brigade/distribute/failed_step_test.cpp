// A step that fails in one worker: all workers abandon it and continue with the next step, in
// hand-written training loops. The workers are threads.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

struct StepFailed : std::runtime_error {
  StepFailed() : std::runtime_error("the step failed") {}
};

constexpr int kSteps = 10;
constexpr int kFailedStep = 5;

/// Ten batches of numbers; no number is in two batches.
data::Dataset<at::Tensor> ten_batches() {
  return input::from_tensor_slices(at::arange(kSteps * 12, at::kDouble).view({-1, 3}).sin())
      .batch(4);
}

/// y = x * bottom * top: backward computes the gradient of `top` before that of `bottom`.
struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    bottom = register_parameter("bottom", at::full({3}, 0.5, at::kDouble));
    top = register_parameter("top", at::full({3}, 0.25, at::kDouble));
  }
  /// `midway` is called in backward between the two.
  at::Tensor forward(const at::Tensor& x, const std::function<void()>& midway) const {
    const at::Tensor hidden = x * bottom;
    if (hidden.numel() > 0) hidden.register_hook([midway](const at::Tensor&) { midway(); });
    return (hidden * top).sum(1);
  }
  at::Tensor bottom, top;
};

enum class FailsIn { kNothing, kForward, kBackward, kSecondOptimizer };

struct LoopResult {
  std::map<int, Error> errors;  // by step
  std::optional<comm::StepAbandoned> abandoned;
  std::vector<at::Tensor> weights;
  std::uint64_t steps = 0;
};

struct FailureCase {
  std::vector<int> replicas = {1, 1};
  comm::CommunicationOptions communication{};
  FailsIn fails_in = FailsIn::kForward;
  int failing_worker = 1;
  int accumulate = 1;
  /// Each of two workers with one replica has its own half of each batch, prefetched.
  bool has_own_data = false;
};

DistributedDataset<at::Tensor> input_of(const MultiWorkerMirroredStrategy& strategy,
                                        const FailureCase& failure_case) {
  if (!failure_case.has_own_data) return strategy.distribute(ten_batches());
  return strategy.distribute_from_function(
      [](const InputContext& context) {
        return ten_batches().map([first = 2 * context.input_pipeline_id](const at::Tensor& batch) {
          return batch.slice(0, first, first + 2);
        });
      },
      {.per_replica_buffer_size = kSteps});
}

/// The training loop of one worker, which catches errors of steps and continues. The failed step is
/// not applied; with two optimizers, only the second one's part of it.
LoopResult train(MultiWorkerMirroredStrategy& strategy, const FailureCase& failure_case) {
  const auto model = strategy.create<TwoLayers>();
  const std::vector<variables::Variable>& all = model.variables();
  const OptimizerOptions options{.accumulate = failure_case.accumulate};
  const bool has_two = failure_case.fails_in == FailsIn::kSecondOptimizer;
  const auto first = strategy.make_optimizer(std::span(all).first(has_two ? 1 : 2),
                                             optim::Sgd{.learning_rate = 0.1}.rule(), options);
  const auto second = strategy.make_optimizer(std::span(all).last(1),
                                              optim::Sgd{.learning_rate = 0.05}.rule(), options);
  const bool fails_here = strategy.worker_index() == failure_case.failing_worker;
  LoopResult result;
  int step = 0;
  auto iterator = input_of(strategy, failure_case).iterator();
  for (; const auto batch = iterator.next(); ++step) {
    const auto fail = [&](const ReplicaContext& context, FailsIn point) {
      const bool is_last = context.local_id + 1 == strategy.num_local_replicas();
      if (fails_here && is_last && step == kFailedStep && failure_case.fails_in == point)
        throw StepFailed();
    };
    try {
      strategy.run(
          [&](ReplicaContext& context, const at::Tensor& own_batch) {
            fail(context, FailsIn::kForward);
            const auto losses = [&] {
              return model.local().forward(own_batch, [&] { fail(context, FailsIn::kBackward); });
            };
            first.minimize(losses());
            fail(context, FailsIn::kSecondOptimizer);
            if (has_two) second.minimize(losses());
          },
          *batch);
    } catch (const comm::StepAbandoned& error) {
      result.errors.emplace(step, error);
      result.abandoned = error;
    } catch (const Error& error) {
      result.errors.emplace(step, error);
    }
    if (result.errors.contains(step)) first.discard();
  }
  for (const auto& variable : all) result.weights.push_back(variable.read().clone());
  result.steps = strategy.step();
  return result;
}

std::map<int, LoopResult> train_all(const FailureCase& failure_case) {
  std::mutex mutex;
  std::map<int, LoopResult> all;
  run_workers(
      failure_case.replicas,
      [&](MultiWorkerMirroredStrategy& strategy) {
        LoopResult result = train(strategy, failure_case);
        const std::lock_guard lock(mutex);
        all.emplace(strategy.worker_index(), std::move(result));
      },
      failure_case.communication);
  return all;
}

/// Trains in one process on all batches except that of the failed step, in which only the first of
/// two optimizers updates.
std::vector<at::Tensor> train_without_the_step(const FailureCase& failure_case) {
  MirroredStrategy strategy(cpus(1));
  const auto model = strategy.create<TwoLayers>();
  const auto& all = model.variables();
  const bool has_two = failure_case.fails_in == FailsIn::kSecondOptimizer;
  const OptimizerOptions options{.accumulate = failure_case.accumulate};
  const auto first = strategy.make_optimizer(std::span(all).first(has_two ? 1 : 2),
                                             optim::Sgd{.learning_rate = 0.1}.rule(), options);
  const auto second = strategy.make_optimizer(std::span(all).last(1),
                                              optim::Sgd{.learning_rate = 0.05}.rule(), options);
  int step = 0;
  for (const auto& batch : strategy.distribute(ten_batches())) {
    const bool is_failed = step++ == kFailedStep;
    if (is_failed) first.discard();
    if (is_failed && !has_two) continue;
    strategy.run(
        [&](ReplicaContext&, const at::Tensor& own_batch) {
          first.minimize(model.local().forward(own_batch, [] {}));
          if (has_two && !is_failed) second.minimize(model.local().forward(own_batch, [] {}));
        },
        batch);
  }
  std::vector<at::Tensor> weights;
  for (const auto& variable : all) weights.push_back(variable.read().clone());
  return weights;
}

void expect_one_failed_step(const FailureCase& failure_case) {
  const auto all = train_all(failure_case);
  const auto expected = train_without_the_step(failure_case);
  ASSERT_EQ(all.size(), failure_case.replicas.size());
  for (const auto& [worker, result] : all) {
    ASSERT_EQ(result.errors.size(), 1u) << "worker " << worker;
    ASSERT_TRUE(result.errors.contains(kFailedStep));
    const Error& error = result.errors.at(kFailedStep);
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_TRUE(mentions(error, "the step failed")) << error.what();
    EXPECT_EQ(result.abandoned.has_value(), worker != failure_case.failing_worker) << error.what();
    if (result.abandoned) {
      EXPECT_EQ(result.abandoned->step(), static_cast<std::uint64_t>(kFailedStep));
      EXPECT_EQ(result.abandoned->failed_ranks(), std::vector{failure_case.failing_worker});
      EXPECT_TRUE(mentions(error, base::str_cat("/job:worker/task:", failure_case.failing_worker)))
          << error.what();
    }
    EXPECT_EQ(result.steps, static_cast<std::uint64_t>(kSteps));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(result.weights[i].equal(all.at(0).weights[i])) << "worker " << worker;
      EXPECT_TRUE(result.weights[i].allclose(expected[i], 1e-12))
          << result.weights[i] << expected[i];
    }
  }
}

comm::CommunicationOptions over(comm::Transport transport, std::int64_t bytes_per_pack) {
  return {.transport = transport, .bytes_per_pack = bytes_per_pack};
}

TEST(FailedStep, IsAbandonedByAllWorkersThatThenContinue) {
  for (const std::vector<int>& replicas : {std::vector{1, 1}, {2, 1}, {1, 2}, {1, 1, 1}})
    expect_one_failed_step({.replicas = replicas});
  expect_one_failed_step({.failing_worker = 0});
}

TEST(FailedStep, IsAbandonedByAllOnEveryTransportAndWithBuckets) {
  for (const auto transport : {comm::Transport::kSharedMemory, comm::Transport::kGloo}) {
    for (const std::int64_t bytes_per_pack : {0, 1})
      expect_one_failed_step({.communication = over(transport, bytes_per_pack)});
  }
}

TEST(FailedStep, MayHaveReducedBucketsAlready) {
  for (const std::vector<int>& replicas : {std::vector{1, 1}, {2, 1}, {1, 2}}) {
    for (const std::int64_t bytes_per_pack : {0, 1})
      expect_one_failed_step({.replicas = replicas,
                              .communication = over(comm::Transport::kAuto, bytes_per_pack),
                              .fails_in = FailsIn::kBackward});
  }
}

TEST(FailedStep, MayFailBetweenTwoOptimizers) {
  for (const std::int64_t bytes_per_pack : {0, 1})
    expect_one_failed_step({.communication = over(comm::Transport::kAuto, bytes_per_pack),
                            .fails_in = FailsIn::kSecondOptimizer});
}

TEST(FailedStep, OfAnAccumulationIsDiscardedByAll) {
  expect_one_failed_step({.accumulate = 2});
}

// The next step's input may have been agreed on when the step fails.
TEST(FailedStep, IsAbandonedByWorkersWithTheirOwnData) {
  for (const FailsIn fails_in : {FailsIn::kForward, FailsIn::kBackward, FailsIn::kSecondOptimizer})
    expect_one_failed_step({.fails_in = fails_in, .has_own_data = true});
  expect_one_failed_step({.failing_worker = 0, .has_own_data = true});
  expect_one_failed_step({.accumulate = 2, .has_own_data = true});
}

TEST(FailedStep, IsTheErrorOfItsWorkerIfTheLoopDoesNotCatch) {
  std::atomic<bool> was_named = false;
  const Error error = error_from([&] {
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto model = strategy.create<TwoLayers>();
      const auto optimizer = strategy.optimizer(model, optim::Sgd{});
      const bool fails = strategy.worker_index() == 1;
      int step = 0;
      for (const auto& batch : strategy.distribute(ten_batches())) {
        const auto run = [&] {
          strategy.run(
              [&](ReplicaContext&, const at::Tensor& own_batch) {
                if (fails && step == kFailedStep) throw StepFailed();
                optimizer.minimize(model.local().forward(own_batch, [] {}));
              },
              batch);
        };
        if (!fails) {
          run();
        } else if (const Error own = error_from(run); step > kFailedStep) {
          was_named = mentions(own, "/job:worker/task:0");
          return;
        }
        ++step;
      }
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(mentions(error, "/job:worker/task:1") && mentions(error, "the step failed"))
      << error.what();
  EXPECT_TRUE(was_named);
}

/// The errors of two workers in a loop that calls `step` in each.
template <class Step>
std::array<std::string, 2> mismatches(const Step& step, int accumulate = 1) {
  std::array<std::string, 2> texts;
  run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto model = strategy.create<TwoLayers>();
    const auto optimizer = strategy.optimizer(model, optim::Sgd{}, {.accumulate = accumulate});
    int number = 0;
    try {
      for (const auto& batch : strategy.distribute(ten_batches())) {
        try {
          step(strategy, model, optimizer, batch, number);
        } catch (const StepFailed&) {
        } catch (const comm::StepMismatch&) {
          throw;
        } catch (const Error&) {
        }
        ++number;
      }
    } catch (const comm::StepMismatch& error) {
      texts[static_cast<std::size_t>(strategy.worker_index())] = error.what();
    }
  });
  return texts;
}

void expect_both_name(const std::array<std::string, 2>& texts, const std::string& one,
                      const std::string& other) {
  for (const std::string& text : texts) {
    EXPECT_NE(text.find(one), std::string::npos) << text;
    EXPECT_NE(text.find(other), std::string::npos) << text;
  }
}

TEST(FailedStep, AStepThatOnlyOneWorkerRunsIsAnErrorThatNamesBothSteps) {
  const auto texts = mismatches([](MultiWorkerMirroredStrategy& strategy, const auto& model,
                                   const Optimizer& optimizer, const auto& batch, int number) {
    if (number == 5 && strategy.is_chief()) strategy.run([](ReplicaContext&) {});
    strategy.run(
        [&](ReplicaContext&, const at::Tensor& own_batch) {
          optimizer.minimize(model.local().forward(own_batch, [] {}));
        },
        batch);
  });
  expect_both_name(texts, "in step 5", "in step 6");
}

TEST(FailedStep, AnUpdateThatOnlyOneWorkerMadeIsAnError) {
  const auto texts = mismatches([](MultiWorkerMirroredStrategy& strategy, const auto& model,
                                   const Optimizer& optimizer, const auto& batch, int number) {
    strategy.run(
        [&](ReplicaContext&, const at::Tensor& own_batch) {
          const Gradients sums = optimizer.aggregate(
              optimizer.compute_gradients(model.local().forward(own_batch, [] {})));
          if (number == 5 && strategy.is_chief()) throw StepFailed();
          optimizer.apply_gradients(sums);
        },
        batch);
  });
  expect_both_name(texts, "5 updates made", "6 updates made");
}

TEST(FailedStep, MicroBatchesThatOnlyOneWorkerAccumulatedAreAnError) {
  const auto texts = mismatches(
      [](MultiWorkerMirroredStrategy& strategy, const auto& model, const Optimizer& optimizer,
         const auto& batch, int number) {
        strategy.run(
            [&](ReplicaContext&, const at::Tensor& own_batch) {
              if (number == 5 && strategy.is_chief()) throw StepFailed();
              optimizer.minimize(model.local().forward(own_batch, [] {}));
            },
            batch);
      },
      2);
  expect_both_name(texts, "2 micro-batches accumulated", "3 micro-batches accumulated");
}

// No worker waits for a worker without a batch.
TEST(FailedStep, AnErrorInOneWorkersInputFailsTheStepForAll) {
  struct Case {
    bool is_own_data = true;
    int ahead = 0;
  };
  for (const auto& [is_own_data, ahead] : {Case{true}, {true, 1}, {true, kSteps}, {false}}) {
    SCOPED_TRACE(ahead);
    std::mutex mutex;
    std::map<int, LoopResult> all;
    run_workers({1, 1}, [&](MultiWorkerMirroredStrategy& strategy) {
      const auto model = strategy.create<TwoLayers>();
      const auto optimizer = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
      const bool fails = strategy.worker_index() == 1;
      const auto broken =
          ten_batches().map([fails, number = std::make_shared<int>(0)](at::Tensor batch) {
            if ((*number)++ == kFailedStep && fails)
              throw Error(ErrorCode::kDataLoss, "the disk is damaged");
            return batch;
          });
      const auto dataset = is_own_data ? strategy.distribute_from_function(
                                             [&](const InputContext&) { return broken; },
                                             {.per_replica_buffer_size = ahead})
                                       : strategy.distribute(broken);
      auto iterator = dataset.iterator();
      LoopResult result;
      for (int step = 0; step < kSteps; ++step) {
        try {
          const auto batch = iterator.next();
          ASSERT_TRUE(batch);
          strategy.run(
              [&](ReplicaContext&, const at::Tensor& own_batch) {
                optimizer.minimize(model.local().forward(own_batch, [] {}));
              },
              *batch);
        } catch (const Error& error) {
          if (const auto* abandoned = dynamic_cast<const comm::StepAbandoned*>(&error))
            result.abandoned = *abandoned;
          result.errors.emplace(step, error);
        }
      }
      EXPECT_FALSE(iterator.next());
      for (const auto& variable : model.variables())
        result.weights.push_back(variable.read().clone());
      result.steps = strategy.step();
      const std::lock_guard lock(mutex);
      all.emplace(strategy.worker_index(), std::move(result));
    });
    ASSERT_EQ(all.size(), 2u);
    for (const auto& [worker, result] : all) {
      ASSERT_EQ(result.errors.size(), 1u) << "worker " << worker;
      ASSERT_TRUE(result.errors.contains(kFailedStep));
      const Error& error = result.errors.at(kFailedStep);
      EXPECT_EQ(error.code(), worker == 1 ? ErrorCode::kDataLoss : ErrorCode::kAborted);
      EXPECT_TRUE(mentions(error, "the disk is damaged")) << error.what();
      if (worker == 0) {
        EXPECT_TRUE(mentions(error, is_own_data ? "worker 1" : "/task:1")) << error.what();
        ASSERT_TRUE(result.abandoned) << "which loops try again, as worker 1 may";
        EXPECT_EQ(result.abandoned->failed_ranks(), std::vector{1});
      }
      EXPECT_EQ(result.steps, all.at(0).steps);
      for (std::size_t i = 0; i < result.weights.size(); ++i)
        EXPECT_TRUE(result.weights[i].equal(all.at(0).weights[i]));
    }
    if (is_own_data) continue;
    const auto expected = train_without_the_step({});
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(all.at(0).weights[i].allclose(expected[i], 1e-12));
  }
}

}  // namespace
}  // namespace brigade::distribute
