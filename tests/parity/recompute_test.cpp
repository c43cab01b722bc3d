// A training that recomputes activations gives the bits of one that keeps them, for any number of
// replicas and every strategy, with dropout, statistics and collectives inside.
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/recompute.h"
#include "brigade/layers/sync_batch_norm.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/examples.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::Strategy;

enum class Activations { kKept, kRecomputed };

template <class Function>
at::Tensor called(Activations activations, const Function& function, const at::Tensor& x) {
  if (activations == Activations::kKept) return function(x);
  return layers::recompute(function, x);
}

/// Modules with random numbers, running statistics and a counter.
template <class Norm>
struct DeepNet : torch::nn::Module {
  explicit DeepNet(Activations the_activations) : activations(the_activations) {}
  at::Tensor forward(const at::Tensor& images) {
    const auto first = [this](const at::Tensor& x) {
      return at::max_pool2d(drop(at::relu(norm1(conv1(x)))), {4, 4});
    };
    const auto second = [this](const at::Tensor& x) {
      return drop(at::relu(norm2(conv2(x)))).flatten(1);
    };
    return output(called(activations, second, called(activations, first, images)));
  }
  const Activations activations;
  torch::nn::Conv2d conv1 =
      register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 3, 5)));
  Norm norm1 = register_module("norm1", Norm(torch::nn::BatchNormOptions(3)));
  torch::nn::Conv2d conv2 =
      register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
  Norm norm2 = register_module("norm2", Norm(torch::nn::BatchNormOptions(4)));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(64, 10));
};

/// A function of layers that begins and ends with the same scopes open.
template <Activations kActivations>
at::Tensor deep_function(const at::Tensor& images) {
  const auto convolutions = layers::arg_scope<layers::conv2d>(
      {.normalizer = layers::batch_normalizer({.decay = 0.8, .scale = true})});
  const auto block = [](const at::Tensor& x) {
    const auto scope = variables::variable_scope(std::nullopt, {.default_name = "block"});
    at::Tensor net = layers::conv2d(x, 3, 3);
    net = layers::dropout(layers::max_pool2d(net, 2), {.keep_prob = 0.8});
    return layers::conv2d(net, 3, 1);
  };
  at::Tensor net = called(kActivations, block, called(kActivations, block, images));
  return layers::fully_connected(layers::flatten(net), 10, {.activation = nullptr});
}

/// Every replica's variables after some steps. Of 10 examples in batches of 4, 4 and 2, one of
/// three replicas gets none of the last batch, of which libtorch's batch norm would make NaN.
template <class Model>
std::vector<at::Tensor> trained(Strategy& strategy, const Model& model, std::int64_t batch_size) {
  constexpr int kSteps = 4;
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.05, .momentum = 0.9});
  int steps = 0;
  for (const auto& batch : strategy.distribute(examples(10).batch(batch_size).repeat())) {
    if (steps++ == kSteps) break;
    strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& own) {
          sgd.minimize(
              layers::losses::sparse_softmax_cross_entropy(model(own.features), own.labels));
        },
        batch);
  }
  std::vector<at::Tensor> values;
  for (const auto& variable : model.variables()) {
    for (int replica = 0; replica < variable.num_components(); ++replica)
      values.push_back(variable.component(replica).detach().clone());
  }
  return values;
}

using TrainFunction = std::function<std::vector<at::Tensor>(Strategy&, Activations)>;

template <class Norm>
std::vector<at::Tensor> train_modules(Strategy& strategy, Activations activations) {
  const auto model =
      strategy.create([activations] { return std::make_shared<DeepNet<Norm>>(activations); });
  return trained(strategy, model, std::is_same_v<Norm, layers::SyncBatchNorm> ? 4 : 5);
}

std::vector<at::Tensor> train_function(Strategy& strategy, Activations activations) {
  const at::Tensor example = at::ones({1, 1, 28, 28});
  if (activations == Activations::kKept)
    return trained(strategy, strategy.create(deep_function<Activations::kKept>, example), 4);
  return trained(strategy, strategy.create(deep_function<Activations::kRecomputed>, example), 4);
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted,
                  const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].equal(wanted[i])) << where << ": tensor " << i;
}

const std::map<std::string, TrainFunction> kTrainings = {
    {"modules", train_modules<torch::nn::BatchNorm2d>},
    {"modules with synchronized batch norm", train_modules<layers::SyncBatchNorm>},
    {"function", train_function}};

TEST(Recomputation, GivesTheBitsOfKeptActivations) {
  for (const auto& [name, train] : kTrainings) {
    for (int replicas = 1; replicas <= 3; ++replicas) {
      std::vector<std::vector<at::Tensor>> values;
      for (const auto activations : {Activations::kKept, Activations::kRecomputed}) {
        MirroredStrategy strategy(distribute::cpus(replicas, /*seed=*/7));
        values.push_back(train(strategy, activations));
      }
      expect_equal(values[1], values[0], name + " on " + std::to_string(replicas));
    }
  }
}

TEST(Recomputation, GivesTheBitsInLowPrecision) {
  for (const device::Precision precision : {device::Precision::kBf16, device::Precision::kFp16}) {
    std::vector<std::vector<at::Tensor>> values;
    for (const auto activations : {Activations::kKept, Activations::kRecomputed}) {
      MirroredStrategy strategy(distribute::cpus(2));
      strategy.set_precision(precision);
      values.push_back(train_function(strategy, activations));
    }
    expect_equal(values[1], values[0], std::string(device::to_string(precision)));
  }
}

TEST(Recomputation, GivesTheBitsUnderCentralStorage) {
  std::vector<std::vector<at::Tensor>> values;
  for (const auto activations : {Activations::kKept, Activations::kRecomputed}) {
    distribute::CentralStorageStrategy strategy(
        distribute::central_cpus(2, variables::Caching::kAlways));
    values.push_back(train_function(strategy, activations));
  }
  expect_equal(values[1], values[0], "central storage");
}

// Gradients are reduced during backward there, unless it contains collectives.
TEST(Recomputation, GivesTheBitsOnSeveralWorkers) {
  for (const auto& [name, train] : kTrainings) {
    std::map<Activations, std::vector<at::Tensor>> values;
    for (const auto activations : {Activations::kKept, Activations::kRecomputed}) {
      std::mutex mutex;
      distribute::run_workers({2, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
        auto own = train(strategy, activations);
        const std::lock_guard lock(mutex);
        if (strategy.worker_index() == 0) values[activations] = std::move(own);
      });
    }
    expect_equal(values[Activations::kRecomputed], values[Activations::kKept], name);
  }
}

TEST(Recomputation, RefusesBackwardAfterTheRun) {
  MirroredStrategy strategy(distribute::cpus(2));
  const auto model = strategy.create(
      [] { return std::make_shared<DeepNet<torch::nn::BatchNorm2d>>(Activations::kRecomputed); });
  const auto losses = strategy.run([&](distribute::ReplicaContext&) {
    return model(at::ones({2, 1, 28, 28})).sum();
  });
  EXPECT_EQ(distribute::error_from([&] { losses[1].backward(); }).code(),
            ErrorCode::kFailedPrecondition);
}

models::Sequential deep_sequential() {
  using namespace models;
  return Sequential({Conv2D{.filters = 4, .kernel_size = 3, .activation = "relu"}, MaxPooling2D{},
                     BatchNormalization{}, Dropout{.rate = 0.2},
                     Conv2D{.filters = 4, .kernel_size = 3}, BatchNormalization{}, ReLU{},
                     Flatten{}, Dense{.units = 16, .activation = "relu"}, Dense{.units = 10}});
}

TEST(Recomputation, OfASequentialGivesItsBits) {
  const at::Tensor example = at::ones({1, 1, 28, 28});
  std::vector<at::Tensor> kept;
  for (const int every : {0, 1, 2, 3, 20}) {
    MirroredStrategy strategy(distribute::cpus(2));
    const auto model = strategy.create(deep_sequential().recompute_every(every), example);
    const auto values = trained(strategy, model, 4);
    if (every == 0) kept = values;
    expect_equal(values, kept, "every " + std::to_string(every));
  }
}

}  // namespace
}  // namespace brigade::parity
