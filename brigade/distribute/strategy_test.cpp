#include "brigade/distribute/strategy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/get_variable.h"

namespace brigade::distribute {
namespace {

struct Random : torch::nn::Module {
  explicit Random(std::int64_t width = 4) {
    linear = register_module("linear", torch::nn::Linear(width, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  torch::nn::Linear linear{nullptr};
};

TEST(StrategyRun, ReturnsEachReplicasResult) {
  MirroredStrategy strategy(cpus(3));
  const auto results =
      strategy.run([](ReplicaContext& context) { return 10 * context.replica_id(); });
  EXPECT_EQ(results.values(), std::vector<int>({0, 10, 20}));
  EXPECT_FALSE(results.examples().has_value());
  static_assert(std::is_void_v<decltype(strategy.run([](ReplicaContext&) {}))>);
}

TEST(StrategyRun, PassesPerReplicaValuesAndOtherArgumentsUnchanged) {
  MirroredStrategy strategy(cpus(2));
  const PerReplica<std::string> names({"a", "b"}, ExampleCounts::of({1, 0}));
  const std::string same = "same";
  const auto results = strategy.run(
      [&](ReplicaContext&, const std::string& name, const std::string& other) {
        EXPECT_EQ(&other, &same);
        return name + other;
      },
      names, same);
  EXPECT_EQ(results.values(), std::vector<std::string>({"asame", "bsame"}));
  EXPECT_TRUE(results.is_empty(1)) << "results contain the numbers of examples";
}

/// Exits with 1 if a run is refused as it should be, and the strategy can be destroyed.
[[noreturn]] void run_in_child(std::unique_ptr<MirroredStrategy> strategy) {
  ::alarm(20);  // whatever becomes of the test
  int status = 0;
  try {
    strategy->run([] {});
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kFailedPrecondition &&
        std::string(error.what()).find("forked after the strategy") != std::string::npos)
      status = 1;
  }
  strategy.reset();
  ::_exit(status);
}

TEST(StrategyRun, IsRefusedInAChildThatWasForkedAfterTheStrategyWasMade) {
  for (const int replicas : {1, 3}) {
    auto strategy = std::make_unique<MirroredStrategy>(cpus(replicas));
    strategy->run([] {});
    const pid_t child = ::fork();
    if (child == 0) run_in_child(std::move(strategy));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "it was killed by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 1);
    strategy->run([] {});
  }
}

/// The weight after a step on a whole batch that was not distributed.
at::Tensor weight_after_plain_batch(int replicas, LossScale scale) {
  MirroredStrategy strategy(cpus(replicas));
  const auto model = strategy.create<AffineModule>();
  auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.5});
  strategy.run(
      [&](ReplicaContext& context, const at::Tensor& whole) {
        EXPECT_EQ(whole.size(0), 4) << "the whole batch, as in TensorFlow";
        EXPECT_FALSE(context.local_examples().has_value());
        sgd.minimize(model(whole).square().sum(1), scale);
      },
      at::full({4, 3}, 0.25, at::kDouble));
  return model->weight.detach().clone();
}

TEST(StrategyRun, EveryReplicaGetsTheWholeOfABatchThatWasNotDistributed) {
  const at::Tensor before = AffineModule().weight.detach();
  for (const LossScale scale : {LossScale::kMeanOverExamples, LossScale::kSum}) {
    const int times = scale == LossScale::kSum ? 2 : 1;
    const at::Tensor change = weight_after_plain_batch(1, scale) - before;
    EXPECT_TRUE((weight_after_plain_batch(2, scale) - before).equal(change * times));
  }
}

TEST(StrategyRun, TheContextMayBeLeftOut) {
  MirroredStrategy strategy(cpus(2));
  const PerReplica<int> numbers({3, 4});
  const auto doubled = strategy.run([](int number) { return 2 * number; }, numbers);
  EXPECT_EQ(doubled.values(), std::vector<int>({6, 8}));
  std::atomic<int> calls{0};
  strategy.run([&] { ++calls; });
  EXPECT_EQ(calls, 2);
  const auto with_both = [](auto&&... arguments) { return sizeof...(arguments); };
  EXPECT_EQ(strategy.run(with_both, numbers)[0], 2U) << "the context is passed to whoever takes it";
}

TEST(StrategyRun, MoveOnlyResultsWork) {
  MirroredStrategy strategy(cpus(2));
  const auto results = strategy.run(
      [](ReplicaContext& context) { return std::make_unique<int>(context.replica_id()); });
  EXPECT_EQ(*results[1], 1);
}

TEST(StrategyRun, ABatchSplitForOtherReplicasIsRefused) {
  MirroredStrategy strategy(cpus(2));
  const PerReplica<int> three({1, 2, 3}, ExampleCounts::of({1, 1, 1}));
  const Error error = error_from([&] { strategy.run([](ReplicaContext&, int) {}, three); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "3 replicas")) << error.what();
}

TEST(StrategyRun, AReplicaThatThrowsReleasesTheOthersAndIsNamed) {
  MirroredStrategy strategy(cpus(3));
  std::atomic<int> released = 0;
  const Error error = error_from([&] {
    strategy.run([&](ReplicaContext& context) {
      if (context.replica_id() == 1) throw Error(ErrorCode::kDataLoss, "torn page");
      try {
        context.barrier();
      } catch (const Error&) {
        ++released;
        throw;
      }
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "Replica 1 (") && mentions(error, "torn page")) << error.what();
  EXPECT_EQ(released, 2);
}

TEST(StrategyRun, ForeignExceptionsAreNestedInAnErrorThatNamesTheReplica) {
  MirroredStrategy strategy(cpus(2));
  try {
    strategy.run([](ReplicaContext& context) {
      if (context.replica_id() == 1) throw std::out_of_range("index 7");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_TRUE(mentions(error, "Replica 1") && mentions(error, "index 7")) << error.what();
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

TEST(StrategyRun, AStrategyIsUsableAfterAFailure) {
  MirroredStrategy strategy(cpus(2));
  for (int round = 0; round < 5; ++round) {
    EXPECT_THROW(strategy.run([&](ReplicaContext& context) {
      if (context.replica_id() == round % 2) throw std::runtime_error("again");
      context.barrier();
    }),
                 Error);
    const auto sums = strategy.run([](ReplicaContext& context) {
      return context.all_reduce(comm::ReduceOp::kSum, at::full({}, 1.0)).item<double>();
    });
    EXPECT_EQ(sums.values(), std::vector<double>({2, 2}));
  }
}

TEST(StrategyRun, RunsDoNotNest) {
  MirroredStrategy strategy(cpus(2));
  const auto inner = [&](ReplicaContext&) {};
  EXPECT_EQ(error_from([&] { strategy.run([&](ReplicaContext&) { strategy.run(inner); }); }).code(),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_from([&] {
              strategy.run([&](ReplicaContext& context) {
                context.merge_call([&](Strategy& merged) { merged.run(inner); });
              });
            }).code(),
            ErrorCode::kFailedPrecondition);
  EXPECT_NO_THROW(strategy.run(inner));
}

TEST(StrategyRun, GradModeIsTheCallers) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Random>();
  const auto builds_graph = [&] {
    return strategy.run([&](ReplicaContext&) {
                     return model(at::rand({1, 4})).requires_grad();
                   })
        .values();
  };
  EXPECT_EQ(builds_graph(), std::vector<bool>({true, true}));
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(builds_graph(), std::vector<bool>({false, false}));
  }
  EXPECT_EQ(builds_graph(), std::vector<bool>({true, true}));
}

TEST(StrategyRun, TheAmbientContextIsTheCallers) {
  MirroredStrategy strategy(cpus(2));
  const auto open = [&] {
    return strategy.run([](ReplicaContext&) { return current_strategy() != nullptr; }).values();
  };
  EXPECT_EQ(open(), std::vector<bool>({false, false}));
  const auto scope = strategy.scope();
  EXPECT_EQ(open(), std::vector<bool>({true, true}));
}

TEST(StrategyRun, ReplicasHaveTheirDevicesThreadsAndTheCallersAreRestored) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  MirroredOptions options = cpus(2);
  options.threads_per_replica = 2;
  MirroredStrategy strategy(options);
  EXPECT_EQ(strategy.run([](ReplicaContext&) { return at::get_num_threads(); }).values(),
            std::vector<int>({2, 2}));
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_THROW(strategy.run([](ReplicaContext&) { throw std::runtime_error("no"); }), Error);
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(before);
}

TEST(StrategyScope, MakesVariablesModelsAndOptimizersDistributed) {
  MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(current_strategy(), nullptr);
  {
    const auto scope = strategy.scope();
    EXPECT_EQ(current_strategy(), &strategy);
    EXPECT_EQ(variables::make_variable({.name = "v", .initial = at::zeros({1})}).num_components(),
              2);
    const auto model = create<AffineModule>();
    EXPECT_EQ(model.variables()[0].num_components(), 2);
    EXPECT_NO_THROW(optimizer(model, optim::Sgd{}));
  }
  EXPECT_EQ(current_strategy(), nullptr);
  EXPECT_EQ(error_from([] { create<AffineModule>(); }).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(variables::make_variable({.name = "v", .initial = at::zeros({1})}).num_components(), 1);
}

TEST(StrategyScope, ScopesOfOneStrategyMayNestAndOthersAreRefused) {
  MirroredStrategy mirrored(cpus(2));
  OneDeviceStrategy one("cpu:0");
  const auto outer = mirrored.scope();
  {
    const auto inner = mirrored.scope();
    EXPECT_EQ(current_strategy(), &mirrored);
  }
  EXPECT_EQ(current_strategy(), &mirrored);
  const Error error = error_from([&] { const auto other = one.scope(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "one_device") && mentions(error, "mirrored")) << error.what();
  EXPECT_EQ(current_strategy(), &mirrored);
}

TEST(StrategyCreate, ReplicasStartEqualAndDependOnTheSeed) {
  const auto weights = [](std::uint64_t seed, int replicas) {
    MirroredStrategy strategy(cpus(replicas, seed));
    const auto model = strategy.create<Random>();
    for (int replica = 1; replica < replicas; ++replica)
      EXPECT_TRUE(
          at::equal(model.replica(replica).linear->weight, model.replica(0).linear->weight));
    return model.variables()[0].read();
  };
  EXPECT_TRUE(at::equal(weights(1, 2), weights(1, 2)));
  EXPECT_TRUE(at::equal(weights(1, 2), weights(1, 4))) << "whatever the number of replicas";
  EXPECT_FALSE(at::equal(weights(1, 2), weights(2, 2)));
}

TEST(StrategyCreate, ASecondModelStartsTheSameOnAnyNumberOfReplicas) {
  const auto second_weights = [](int replicas) {
    MirroredStrategy strategy(cpus(replicas));
    const auto first = strategy.create<Random>();
    return strategy.create<Random>({.name = "second"}).variables()[0].read();
  };
  EXPECT_TRUE(at::equal(second_weights(1), second_weights(3)));
}

TEST(StrategyCreate, TwoModelsDifferAndNeedDistinctNames) {
  MirroredStrategy strategy(cpus(2));
  const auto first = strategy.create<Random>();
  EXPECT_EQ(error_from([&] { strategy.create<Random>(); }).code(), ErrorCode::kAlreadyExists);
  const auto second = strategy.create<Random>({.name = "second"});
  EXPECT_EQ(second.variables()[0].name(), "second.linear.weight");
  EXPECT_FALSE(at::equal(first.variables()[0].read(), second.variables()[0].read()));
}

TEST(StrategyCreate, PassesArgumentsAndTakesFactories) {
  MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(strategy.create<Random>({.name = "wide"}, 9).variables()[0].shape(),
            at::IntArrayRef({3, 9}));
  int built = 0;
  const auto model = strategy.create([&] {
    ++built;
    auto module = std::make_shared<Random>();
    module->to(at::kDouble);
    return module;
  });
  EXPECT_EQ(built, 2);
  EXPECT_EQ(model.variables()[0].dtype(), at::kDouble);
}

TEST(StrategyCreate, NamesModelsOfFactoriesAndOfFunctions) {
  MirroredStrategy strategy(cpus(2));
  const auto left = strategy.create({.name = "left"}, [] { return std::make_shared<Random>(); });
  EXPECT_EQ(left.variables()[0].name(), "left.linear.weight");
  const auto scale = [](const at::Tensor& x) {
    return x * variables::get_variable("factor", {{4}}).local();
  };
  const auto right = strategy.create({.name = "right"}, scale, at::ones({2, 4}));
  EXPECT_EQ(right.variables()[0].name(), "right/factor");
}

TEST(StrategyCreate, IsRefusedInsideAReplica) {
  MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(
      error_from([&] { strategy.run([&](ReplicaContext&) { strategy.create<Random>(); }); }).code(),
      ErrorCode::kFailedPrecondition);
}

/// One random number per replica of the next run.
std::vector<double> draw(Strategy& strategy) {
  return strategy.run([](ReplicaContext&) { return at::rand({}, at::kDouble).item<double>(); })
      .values();
}

TEST(StrategyRandomness, DiffersBetweenReplicasAndStepsAndRepeatsFromRunToRun) {
  MirroredStrategy strategy(cpus(2, 5));
  MirroredStrategy again(cpus(2, 5));
  const auto first = draw(strategy);
  const auto second = draw(strategy);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(again), first);
  EXPECT_EQ(draw(again), second);
  MirroredStrategy other_seed(cpus(2, 6));
  EXPECT_NE(draw(other_seed), first);
}

TEST(StrategyRandomness, ContinuesWhereAResumedJobStopped) {
  MirroredStrategy strategy(cpus(2, 5));
  draw(strategy);
  draw(strategy);
  EXPECT_EQ(strategy.step(), 2u);
  const auto third = draw(strategy);
  MirroredStrategy resumed(cpus(2, 5));
  resumed.set_step(2);
  EXPECT_EQ(draw(resumed), third);
}

TEST(Strategy, JoinsItsThreads) {
  const std::ptrdiff_t before = threads_of_this_process();
  {
    MirroredStrategy strategy(cpus(4));
    strategy.run([](ReplicaContext&) {});
    EXPECT_FALSE(threads_of_this_process() <= before);
  }
  EXPECT_TRUE(threads_go_down_to(before));
}

TEST(RequireStrategy, NamesTheCallThatNeedsAStrategy) {
  const Error error = error_from([] { require_strategy("Mean"); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "Mean") && mentions(error, "scope")) << error.what();
}

}  // namespace
}  // namespace brigade::distribute
