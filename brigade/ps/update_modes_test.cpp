// What docs/design/parameter-servers.md says of trainings, in each mode: clipping, statistics,
// variables without a gradient, the global step, reductions, learning rates and staleness.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"

namespace brigade::ps {
namespace {

using distribute::LossScale;
using distribute::ReplicaContext;
using distribute::Strategy;
using distribute::UpdateStaleness;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::loss_of;
using testing::Plan;
using testing::SmallNet;
using testing::Training;
using testing::waves;
using testing::Weights;
using testing::weights_of;

const std::map<std::string, UpdateMode>& update_modes() {
  static const std::map<std::string, UpdateMode> modes = {{"async", UpdateMode::kAsync},
                                                          {"bounded", UpdateMode::kBounded},
                                                          {"sync", UpdateMode::kSync}};
  return modes;
}

// Clipping.

constexpr double kClipNorm = 0.01;  // far below that of the gradients

/// The weights after some steps whose gradients are clipped together.
Weights trained_with_clipping(Strategy& strategy, int steps) {
  const auto model = strategy.create<SmallNet>(13);
  const auto sgd =
      strategy.make_optimizer(model.variables(), optim::Sgd{.learning_rate = 1}.rule(), {});
  for (int step = 0; step < steps; ++step) {
    strategy.run([&] {
      const at::Tensor loss = loss_of(model.local(), step, strategy.worker_index());
      auto gradients = sgd.aggregate(sgd.compute_gradients(loss));
      EXPECT_GT(optim::clip_by_global_norm_(gradients, kClipNorm), kClipNorm);
      sgd.apply_gradients(gradients);
    });
  }
  return weights_of(model.variables());
}

TEST(UpdateModes, ClippingIsByTheNormOfAllVariablesOnWhicheverServersTheyAre) {
  distribute::OneDeviceStrategy alone("cpu:0");
  const Weights expected = trained_with_clipping(alone, 5);
  for (const auto& [name, mode] : update_modes()) {
    for (const int servers : {1, 2, 3}) {
      JobOfThreads job(servers, 1);
      const auto strategy = job.join(0, {.mode = mode});
      expect_equal_bits(trained_with_clipping(*strategy, 5), expected,
                        base::str_cat(name, " with servers: ", servers));
    }
  }
}

/// What a worker of two subtracts in its first step.
std::map<std::string, at::Tensor> clipped_part(int worker) {
  const SmallNet model(13);
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  for (const auto& item : model.named_parameters()) {
    names.push_back(item.key());
    parameters.push_back(item.value());
  }
  const at::Tensor half = loss_of(model, 0, worker).mean() * 0.5;
  const auto gradients = torch::autograd::grad({half}, parameters, {}, std::nullopt,
                                               /*create_graph=*/false, /*allow_unused=*/true);
  const auto clipped = optim::clip_by_global_norm(gradients, kClipNorm).tensors;
  std::map<std::string, at::Tensor> parts;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (clipped[i].defined()) parts[names[i]] = clipped[i];
  return parts;
}

TEST(UpdateModes, ASynchronousWorkerClipsItsPartOfTheSum) {
  JobOfThreads job(2, 2);
  std::mutex mutex;
  std::map<int, Weights> all;
  job.run({.mode = UpdateMode::kSync}, [&](ParameterServerStrategy& strategy) {
    Weights weights = trained_with_clipping(strategy, 1);
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = std::move(weights);
  });
  const SmallNet initial(13);
  const auto first = clipped_part(0), second = clipped_part(1);
  const at::NoGradGuard no_grad;
  for (const auto& item : initial.named_parameters()) {
    at::Tensor expected = item.value().detach().clone();
    if (first.contains(item.key())) expected.sub_(first.at(item.key()) + second.at(item.key()));
    for (const auto& [worker, weights] : all)
      EXPECT_TRUE(at::allclose(weights.at(item.key()), expected, 1e-5, 1e-6))
          << item.key() << " in worker " << worker;
  }
}

// Variables without a gradient, and the global step.

/// "shared" is in the loss of every worker, "chiefs" in the chief's alone, "unused" in none.
struct PartlyUsed : torch::nn::Module {
  PartlyUsed() {
    for (at::Tensor* each : {&shared, &chiefs, &unused}) *each = at::ones({3}, at::kDouble);
    shared = register_parameter("shared", shared);
    chiefs = register_parameter("chiefs", chiefs);
    unused = register_parameter("unused", unused);
  }
  at::Tensor shared, chiefs, unused;
};

optim::UpdateRulePtr decaying_rule() {
  return optim::Adam{.learning_rate = 0.1, .weight_decay = 0.1}.rule();
}

TEST(UpdateModes, VariablesWithoutAGradientDoNotChangeAndTheGlobalStepCountsUpdates) {
  constexpr std::int64_t kSteps = 4;
  for (const auto& [name, mode] : update_modes()) {
    JobOfThreads job(2, 2);
    job.run({.mode = mode}, [&](ParameterServerStrategy& strategy) {
      const auto model = strategy.create<PartlyUsed>();
      const auto adam = strategy.make_optimizer(model.variables(), decaying_rule(), {});
      for (std::int64_t step = 0; step < kSteps; ++step) {
        strategy.run([&] {
          at::Tensor loss = model->shared.sum();
          if (strategy.is_chief()) loss = loss + model->chiefs.sum();
          adam.minimize(loss, LossScale::kSum);
        });
      }
    });
    const bool is_sync = mode == UpdateMode::kSync;
    EXPECT_EQ(job.step(), is_sync ? kSteps : 2 * kSteps) << name;

    // A chief that is started again gets all that the servers have.
    const auto again = job.join(0, {.mode = mode});
    const auto model = again->create<PartlyUsed>();
    const auto adam = again->make_optimizer(model.variables(), decaying_rule(), {});
    again->fetch_state();
    const optim::OptimizerState& state = adam.state();
    std::map<std::string, std::int64_t> updates;
    for (std::size_t i = 0; i < state.variables().size(); ++i)
      updates[state.variables()[i].name()] = state.step(i);
    const std::map<std::string, std::int64_t> expected = {
        {"shared", is_sync ? kSteps : 2 * kSteps}, {"chiefs", kSteps}, {"unused", 0}};
    EXPECT_EQ(updates, expected) << name;
    for (std::size_t i = 0; i < state.variables().size(); ++i) {
      const bool is_unused = state.variables()[i].name() == "unused";
      for (std::size_t slot = 0; slot < state.rule().slots().size(); ++slot)
        EXPECT_EQ(state.slot(i, slot, 0).eq(0).all().item<bool>(), is_unused) << name;
    }
    EXPECT_TRUE(weights_of(model.variables()).at("unused").eq(1).all().item<bool>()) << name;
  }
}

/// All variables that the loss depends on were updated as often as the job.
void expect_one_step(const Training& training, std::int64_t step) {
  const optim::OptimizerState& state = training.optimizer().state();
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    const std::string& name = state.variables()[i].name();
    EXPECT_EQ(state.step(i), name == "unused" ? 0 : step) << name;
  }
}

TEST(UpdateModes, ASynchronousCheckpointIsOfOneStepWhileOthersContinueWithoutTheChief) {
  constexpr int kCheckpoints = 20;
  JobOfThreads job(3, 2);
  std::atomic<bool> is_saving{true};
  job.run({.mode = UpdateMode::kSync, .backup_workers = 1}, [&](ParameterServerStrategy& strategy) {
    Training training(strategy, {});
    if (!strategy.is_chief()) {
      for (std::int64_t number = 0; is_saving; ++number) training.step(number);
      return;
    }
    strategy.start_job();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::int64_t last = 0;
    for (int saved = 0; saved < kCheckpoints || last < kCheckpoints; ++saved) {
      if (std::chrono::steady_clock::now() > deadline) break;
      strategy.fetch_state();
      expect_one_step(training, strategy.global_step().value());
      EXPECT_GE(strategy.global_step().value(), last);
      last = strategy.global_step().value();
    }
    EXPECT_GE(last, kCheckpoints) << "the other makes no steps";
    is_saving = false;
  });
}

// Statistics, and what replicas reduce.

struct NormedNet : torch::nn::Module {
  NormedNet() {
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    weight = register_parameter("weight", waves(3, 2, 0.1));
  }
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x).mm(weight); }
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor weight;
};

/// The moving statistics of a model after some steps on batches of `part`.
Weights statistics_of(Strategy& strategy, int part) {
  const auto model = strategy.create<NormedNet>();
  const auto sgd = strategy.make_optimizer(model.variables(), optim::Sgd{}.rule(), {});
  for (int step = 0; step < 3; ++step) {
    strategy.run([&] {
      const at::Tensor x = waves(8, 3, 1.7 * step + 0.9 * part);
      sgd.minimize(model.local().forward(x).square().mean(1));
    });
  }
  strategy.fetch_state();  // as for a checkpoint
  Weights statistics;
  for (auto& [name, value] : weights_of(model.variables()))
    if (name.find("running") != std::string::npos) statistics[name] = value;
  return statistics;
}

TEST(UpdateModes, MovingStatisticsStayInEachWorker) {
  std::map<int, Weights> expected;
  for (const int worker : {0, 1}) {
    distribute::OneDeviceStrategy alone("cpu:0");
    expected[worker] = statistics_of(alone, worker);
  }
  ASSERT_EQ(expected[0].size(), 2U) << "mean and variance";
  ASSERT_FALSE(expected[0].begin()->second.equal(expected[1].begin()->second));
  for (const auto& [name, mode] : update_modes()) {
    JobOfThreads job(2, 2);
    std::mutex mutex;
    std::map<int, Weights> all;
    job.run({.mode = mode}, [&](ParameterServerStrategy& strategy) {
      Weights statistics = statistics_of(strategy, strategy.worker_index());
      const std::lock_guard lock(mutex);
      all[strategy.worker_index()] = std::move(statistics);
    });
    for (const int worker : {0, 1})
      expect_equal_bits(all[worker], expected[worker], base::str_cat(name, ", worker ", worker));
  }
}

TEST(UpdateModes, ReductionsAndMetricsAreOfTheReplicasOfOneWorker) {
  for (const auto& [name, mode] : update_modes()) {
    JobOfThreads job(1, 2);
    job.run({.devices = {"cpu:0", "cpu:1"}, .mode = mode}, [&](ParameterServerStrategy& strategy) {
      const auto own = strategy.run([&](const ReplicaContext& context) {
        return at::full({1}, 10 * strategy.worker_index() + context.local_id, at::kLong);
      });
      EXPECT_EQ(strategy.reduce(comm::ReduceOp::kSum, own).item<std::int64_t>(),
                20 * strategy.worker_index() + 1)
          << name;
      EXPECT_EQ(strategy.gather(own, 0).numel(), 2) << name;
    });
  }
}

// Rates and staleness.

TEST(UpdateModes, OnlyTheChiefsLearningRateCounts) {
  for (const auto& [name, mode] : update_modes()) {
    JobOfThreads job(2, 2);
    job.run({.mode = mode}, [](ParameterServerStrategy& strategy) {
      Plan plan;
      plan.before_step = [&](std::int64_t step, const distribute::Optimizer& optimizer) {
        if (step == 2) optimizer.set_learning_rate(strategy.is_chief() ? 0.005 : 100);
      };
      Training(strategy, plan).steps(0, plan.steps);
    });
    for (int server = 0; server < 2; ++server)
      EXPECT_EQ(job.servers()[server].core().status().learning_rate, 0.005) << name;
  }
}

TEST(UpdateModes, AWorkerCountsHowStaleItsUpdatesWere) {
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded}) {
    JobOfThreads job(2, 2);
    const ParameterServerOptions options = {.mode = mode,
                                            .staleness = mode == UpdateMode::kBounded ? 10 : 0};
    const auto chief = job.join(0, options);
    const auto worker = job.join(1, options);
    Training of_chief(*chief, {}), of_worker(*worker, {});
    EXPECT_EQ(chief->staleness(), UpdateStaleness());
    of_chief.steps(0, 1);
    of_worker.steps(0, 1);
    of_chief.steps(1, 4);
    of_worker.steps(1, 2);
    if (mode == UpdateMode::kAsync) {  // pulls before a step only at its start
      EXPECT_EQ(chief->staleness()->updates,
                (std::map<std::int64_t, std::int64_t>{{0, 3}, {1, 1}}));
      EXPECT_EQ(worker->staleness()->updates,
                (std::map<std::int64_t, std::int64_t>{{0, 1}, {3, 1}}));
    } else {  // pulls after each permission
      EXPECT_EQ(chief->staleness()->updates, (std::map<std::int64_t, std::int64_t>{{0, 4}}));
      EXPECT_EQ(worker->staleness()->updates, (std::map<std::int64_t, std::int64_t>{{0, 2}}));
    }
  }
  JobOfThreads job(1, 1);
  const auto strategy = job.join(0, {.mode = UpdateMode::kSync});
  Training training(*strategy, {});
  training.steps(0, 2);
  EXPECT_EQ(strategy->staleness(), std::nullopt) << "no synchronous update is stale";
}

/// A worker of a job whose rate follows staleness. Each update subtracts the rate, 1, from
/// "shared".
struct AwareWorker {
  AwareWorker(JobOfThreads& job, int worker)
      : strategy(job.join(worker, {.staleness_aware = true})),
        model(strategy->create<PartlyUsed>()),
        sgd(strategy->make_optimizer(model.variables(), optim::Sgd{.learning_rate = 1}.rule(),
                                     {})) {}
  double step() {
    strategy->run([this] { sgd.minimize(model->shared.sum(), LossScale::kSum); });
    return value();
  }
  double value() const { return weights_of(model.variables()).at("shared")[0].item<double>(); }

  std::unique_ptr<ParameterServerStrategy> strategy;
  distribute::Replicated<PartlyUsed> model;
  distribute::Optimizer sgd;
};

TEST(UpdateModes, ARateThatFollowsStalenessSurvivesARestartOfServers) {
  JobOfThreads job(2, 2);
  AwareWorker chief(job, 0), worker(job, 1);
  EXPECT_EQ(chief.step(), 0);
  EXPECT_EQ(worker.step(), -1);
  EXPECT_EQ(chief.step(), -2) << "a staleness of 1 changes no rate";
  EXPECT_EQ(chief.step(), -3);
  EXPECT_EQ(chief.step(), -4);
  const double value = worker.step();
  EXPECT_DOUBLE_EQ(value, -4 - 1.0 / 3) << "a staleness of 3";
  for (int server = 0; server < 2; ++server) job.servers()[server].restart();
  chief.strategy->fetch_state();
  EXPECT_EQ(chief.value(), value);
  EXPECT_EQ(chief.step(), value - 1) << "it has just read the values";
}

}  // namespace
}  // namespace brigade::ps
