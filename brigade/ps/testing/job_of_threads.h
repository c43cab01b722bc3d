#pragma once

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_spec.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/adam.h"
#include "brigade/ps/parameter_server_strategy.h"
#include "brigade/ps/testing/local_service.h"

/// Trainings with parameter servers whose workers are threads, and the same trainings without.
namespace brigade::ps::testing {

using distribute::ReplicaContext;
using distribute::Strategy;

inline constexpr std::int64_t kFeatures = 8;
inline constexpr std::int64_t kExamples = 8;

inline at::Tensor waves(std::int64_t rows, std::int64_t columns, double shift) {
  return at::arange(rows * columns, at::kFloat).mul(0.37).add(shift).sin().view({rows, columns});
}

/// Two layers, and a parameter that no loss depends on.
struct SmallNet : torch::nn::Module {
  explicit SmallNet(std::int64_t hidden) {
    first = register_parameter("first", waves(kFeatures, hidden, 0.1).mul(0.3));
    shift = register_parameter("shift", waves(1, hidden, 0.2).mul(0.1));
    second = register_parameter("second", waves(hidden, 16, 0.3).mul(0.3));
    unused = register_parameter("unused", waves(1, 16, 0.4));
  }
  at::Tensor forward(const at::Tensor& x) const { return x.mm(first).add(shift).tanh().mm(second); }
  at::Tensor first, shift, second, unused;
};

/// One value per example: how far the model is from a fixed linear function.
inline at::Tensor loss_of(const SmallNet& model, std::int64_t step, int part) {
  const at::Tensor x = waves(kExamples, kFeatures, 1.7 * static_cast<double>(step) + 0.9 * part);
  const at::Tensor y = x.mm(waves(kFeatures, 16, 0.5).mul(0.5));
  return (model.forward(x) - y).square().mean(1);
}

struct Plan {
  optim::UpdateRulePtr rule = optim::Adam{.learning_rate = 1e-2}.rule();
  distribute::OptimizerOptions optimizer = {};
  std::int64_t steps = 6;
  std::int64_t hidden = 13;  ///< 16: every variable fills whole vectors of the kernels
  bool aggregates = false;   ///< sums the gradients, and applies the sums
  /// Called before each step.
  std::function<void(std::int64_t step, const distribute::Optimizer&)> before_step = {};
};

using Weights = std::map<std::string, at::Tensor>;

inline Weights weights_of(const std::vector<variables::Variable>& variables) {
  Weights weights;
  for (const variables::Variable& each : variables) weights[each.name()] = each.read().clone();
  return weights;
}

inline void expect_equal_bits(const Weights& some, const Weights& others,
                              const std::string& where) {
  ASSERT_EQ(some.size(), others.size()) << where;
  for (const auto& [name, value] : some)
    EXPECT_TRUE(value.equal(others.at(name))) << name << ": " << where;
}

/// A model under a strategy. Each replica of each worker has its own data.
class Training {
 public:
  Training(Strategy& strategy, const Plan& plan)
      : strategy_(strategy),
        plan_(plan),
        model_(strategy.create<SmallNet>(plan.hidden)),
        optimizer_(strategy.make_optimizer(model_.variables(), plan.rule, plan.optimizer)) {}

  void step(std::int64_t number) {
    strategy_.run([&](ReplicaContext& context) {
      const int part = strategy_.worker_index() * strategy_.num_local_replicas() + context.local_id;
      const at::Tensor loss = loss_of(model_.local(), number, part);
      if (!plan_.aggregates) {
        optimizer_.minimize(loss);
      } else {
        optimizer_.apply_gradients(optimizer_.aggregate(optimizer_.compute_gradients(loss)));
      }
    });
  }
  void steps(std::int64_t first, std::int64_t last) {
    for (std::int64_t number = first; number < last; ++number) {
      if (plan_.before_step) plan_.before_step(number, optimizer_);
      step(number);
    }
  }

  const std::vector<variables::Variable>& variables() const { return model_.variables(); }
  const distribute::Optimizer& optimizer() const { return optimizer_; }
  Weights weights() const { return weights_of(variables()); }

 private:
  Strategy& strategy_;
  const Plan plan_;
  distribute::Replicated<SmallNet> model_;
  distribute::Optimizer optimizer_;
};

inline Weights trained_by(Strategy& strategy, const Plan& plan) {
  Training training(strategy, plan);
  training.steps(0, plan.steps);
  training.optimizer().flush();
  return training.weights();
}

inline Weights on_one_device(const Plan& plan) {
  distribute::OneDeviceStrategy strategy("cpu:0");
  return trained_by(strategy, plan);
}

/// The end of a worker that does not say goodbye.
struct Killed : std::exception {};

inline cluster::ClusterSpec cluster_of(int servers, int workers) {
  int port = 1000;  // nobody listens there
  std::map<std::string, std::vector<std::string>> jobs;
  for (int i = 0; i < servers; ++i) jobs["ps"].push_back(base::str_cat("127.0.0.1:", port++));
  for (int i = 0; i < workers; ++i) jobs["worker"].push_back(base::str_cat("127.0.0.1:", port++));
  return cluster::ClusterSpec(jobs);
}

inline cluster::ClusterConfig config_of(const cluster::ClusterSpec& spec, int worker) {
  return {.cluster = spec,
          .task = {.job = "worker", .index = worker},
          .rank = worker,
          .world_size = static_cast<int>(spec.training_tasks().size()),
          .source = "this test"};
}

/// A job whose workers are threads, and whose servers are in this process.
class JobOfThreads {
 public:
  JobOfThreads(int servers, int workers)
      : spec_(cluster_of(servers, workers)),
        servers_({.servers = servers, .tasks = spec_.training_tasks()}) {}

  LocalServers& servers() { return servers_; }
  int workers() const { return static_cast<int>(spec_.training_tasks().size()); }
  std::int64_t step() { return servers_[0].core().status().step; }

  std::unique_ptr<ParameterServerStrategy> join(int worker, ParameterServerOptions options = {}) {
    if (options.devices.empty()) options.devices = {"cpu:0"};
    options.allow_oversubscription = true;
    options.timeout = std::chrono::seconds(60);
    options.server_timeout = std::chrono::seconds(60);
    options.cancel = cancel_;
    return std::make_unique<ParameterServerStrategy>(config_of(spec_, worker), servers_.connect(),
                                                     options);
  }

  /// Calls `work` in a thread of each worker. If one throws, the others are cancelled, and the
  /// error is thrown; Killed ends its worker alone.
  void run(const ParameterServerOptions& options,
           const std::function<void(ParameterServerStrategy&)>& work) {
    std::mutex mutex;  // guards `first`
    std::exception_ptr first;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers(); ++worker) {
      threads.emplace_back([&, worker] {
        try {
          const auto strategy = join(worker, options);
          work(*strategy);
        } catch (const Killed&) {
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
          cancel_.cancel();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
  }

 private:
  const cluster::ClusterSpec spec_;
  LocalServers servers_;
  const concurrency::CancelToken cancel_;
};

/// What a checkpoint has of a training.
struct SavedTraining {
  Weights weights;
  optim::SavedOptimizer optimizer;
  std::int64_t step = 0;
};

inline SavedTraining save(const ParameterServerStrategy& strategy, const Training& training) {
  strategy.fetch_state();
  SavedTraining saved{.weights = training.weights(),
                      .optimizer = training.optimizer().state().save("adam"),
                      .step = *strategy.global_step()};
  for (auto& [name, slot] : saved.optimizer.slots) slot = slot.clone();
  return saved;
}

inline void restore(Strategy& strategy, const Training& training, const SavedTraining& saved) {
  for (const auto& variable : training.variables())
    variable.assign(saved.weights.at(variable.name()));
  training.optimizer().restore("adam", saved.optimizer);
  strategy.set_global_step(saved.step);
  strategy.store_state();
}

/// The weights with which every worker of a synchronous job ends; they must be equal.
inline Weights trained_in_sync(int servers, int workers, const Plan& plan,
                               ParameterServerOptions options = {}) {
  options.mode = UpdateMode::kSync;
  JobOfThreads job(servers, workers);
  std::mutex mutex;
  std::map<int, Weights> all;
  job.run(options, [&](ParameterServerStrategy& strategy) {
    Weights weights = trained_by(strategy, plan);
    const std::lock_guard lock(mutex);
    all[strategy.worker_index()] = std::move(weights);
  });
  EXPECT_EQ(job.step(), plan.steps);
  for (const auto& [worker, weights] : all)
    expect_equal_bits(weights, all[0], base::str_cat("worker ", worker));
  return all[0];
}

inline Weights on_mirrored_workers(int workers, const Plan& plan, int replicas = 1) {
  Weights chiefs;
  distribute::run_workers(std::vector<int>(static_cast<std::size_t>(workers), replicas),
                          [&](distribute::MultiWorkerMirroredStrategy& strategy) {
                            Weights weights = trained_by(strategy, plan);
                            if (strategy.is_chief()) chiefs = std::move(weights);
                          });
  return chiefs;
}

}  // namespace brigade::ps::testing
