#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/bare_models.h"
#include "benchmarks/workload.h"
#include "brigade/distribute/optimizer/parallel_optimization.h"
#include "brigade/distribute/strategies/central_storage_strategy.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {

/// MiB of trained variables and optimizer slots on each device, each piece of memory counted once.
inline std::map<std::string, double> memory_by_device(const optim::OptimizerState& state) {
  std::map<std::string, double> mebibytes;
  std::set<const void*> seen;
  const auto count = [&](const at::Tensor& tensor) {
    if (!seen.insert(tensor.storage().unsafeGetStorageImpl()).second) return;
    mebibytes[tensor.device().str()] += static_cast<double>(tensor.storage().nbytes()) / (1 << 20);
  };
  const auto slots = state.rule().slots().size();
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    const variables::Variable& variable = state.variables()[i];
    for (int replica = 0; replica < variable.num_components(); ++replica) {
      count(variable.storage()->master(replica));
      count(variable.component(replica));
      for (std::size_t slot = 0; slot < slots; ++slot) count(state.slot(i, slot, replica));
    }
  }
  return mebibytes;
}

/// `one_device` on cpu:0, or `mirrored` or `central_storage` on as many logical CPUs as there are
/// replicas; `central_storage_copies` has each replica read a copy, as between devices.
inline std::unique_ptr<distribute::Strategy> make_strategy(const std::string& name, int replicas) {
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back("cpu:" + std::to_string(i));
  if (name == "mirrored") return std::make_unique<distribute::MirroredStrategy>(devices);
  if (name == "central_storage" || name == "central_storage_copies") {
    return std::make_unique<distribute::CentralStorageStrategy>(distribute::CentralStorageOptions{
        .compute_devices = devices,
        .caching = name == "central_storage" ? variables::Caching::kWhereNeeded
                                             : variables::Caching::kAlways});
  }
  if (name != "one_device") throw std::invalid_argument("--strategy '" + name + "' is not known");
  if (replicas != 1) throw std::invalid_argument("--strategy one_device has one replica");
  return std::make_unique<distribute::OneDeviceStrategy>(devices.front());
}

/// This process's replica of a job that the environment describes (torchrun's names).
inline std::unique_ptr<distribute::Strategy> make_worker_strategy(
    const comm::CommunicationOptions& communication) {
  distribute::MultiWorkerMirroredOptions options;
  options.communication = communication;
  return std::make_unique<distribute::MultiWorkerMirroredStrategy>(options);
}

/// The training loop as a user of Brigade writes it, on batches in memory, split
/// beforehand: what remains is the strategy's own cost.
class StrategyLoop {
 public:
  StrategyLoop(Workload workload, const std::string& strategy, int replicas,
               std::int64_t batch_size)
      : StrategyLoop(workload, make_strategy(strategy, replicas), batch_size) {}
  StrategyLoop(Workload workload, std::unique_ptr<distribute::Strategy> strategy,
               std::int64_t batch_size)
      : strategy_(std::move(strategy)),
        batches_(split_batches(workload, strategy_->replica_range(), batch_size)) {
    if (workload == Workload::kMnistCnn) {
      step_ = make_step(strategy_->create<models::MnistCnn>(), optim::Adam{.learning_rate = 1e-3});
    } else {
      step_ = make_step(strategy_->create<models::Mlp>(mlp_options(workload)),
                        optim::Sgd{.learning_rate = 1e-3});
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }
  /// One step; the replicas' losses.
  distribute::PerReplica<distribute::StepLoss> step() {
    return step_(batches_[position_++ % batches_.size()]);
  }

  distribute::Strategy& strategy() const { return *strategy_; }
  const std::vector<variables::Variable>& variables() const { return variables_; }
  const distribute::Optimizer& optimizer() const { return *optimizer_; }

  /// Has the strategy measure what steps spend their time on.
  void measure_steps() { strategy_->measure_steps(distribute::StepMeasuring::kOn); }

  std::map<std::string, double> memory_by_device() const {
    return benchmarks::memory_by_device(optimizer_->state());
  }

 private:
  using Batches = distribute::PerReplica<input::LabeledBatch>;

  static std::vector<Batches> split_batches(Workload workload, distribute::ReplicaRange range,
                                            std::int64_t batch_size) {
    std::vector<std::vector<input::LabeledBatch>> global;
    for (int replica = 0; replica < range.local; ++replica) {
      auto mine = make_batches(workload, batch_size);
      global.resize(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        global[i].push_back({std::move(mine[i].features), std::move(mine[i].labels)});
      }
    }
    const distribute::ExampleCounts counts{
        .local = std::vector<std::int64_t>(static_cast<std::size_t>(range.local), batch_size),
        .global = batch_size * range.total};
    std::vector<Batches> batches;
    for (auto& batches_of_step : global) {
      batches.emplace_back(std::move(batches_of_step), counts);
    }
    return batches;
  }

  using Step = std::function<distribute::PerReplica<distribute::StepLoss>(const Batches&)>;

  template <class Model, class Rule>
  Step make_step(Model model, const Rule& rule) {
    auto optimizer = strategy_->optimizer(model, rule);
    optimizer_ = optimizer;
    variables_ = model.variables();
    return [this, model = std::move(model),
            optimizer = std::move(optimizer)](const Batches& batches) mutable {
      return strategy_->run(
          [&](distribute::ReplicaContext&, const input::LabeledBatch& batch) {
            auto loss =
                layers::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels);
            return optimizer.minimize(loss);
          },
          batches);
    };
  }

  std::unique_ptr<distribute::Strategy> strategy_;
  std::vector<Batches> batches_;
  std::optional<distribute::Optimizer> optimizer_;
  std::vector<variables::Variable> variables_;
  Step step_;  // holds the model and its optimizer
  std::size_t position_ = 0;
};

/// In-graph towers around a CPU controller, as the tutorial's user writes them: the MNIST CNN as a
/// function of layers, each tower with its own batch from memory.
class TowerLoop {
 public:
  TowerLoop(int towers, std::int64_t batch_size)
      : optimization_(distribute::create_parallel_optimization<input::LabeledBatch>(
            [](const distribute::InputFunction<input::LabeledBatch>& input_fn) {
              const input::LabeledBatch batch = input_fn();
              return layers::losses::sparse_softmax_cross_entropy(models::mnist_cnn(batch.features),
                                                                  batch.labels);
            },
            source(batch_size), optim::Adam{.learning_rate = 1e-3}, options(towers))) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) optimization_.update();
  }

  std::map<std::string, double> memory_by_device() const {
    return benchmarks::memory_by_device(optimization_.optimizer().state());
  }

 private:
  static distribute::BatchSource<input::LabeledBatch> source(std::int64_t batch_size) {
    return [batches = make_batches(Workload::kMnistCnn, batch_size),
            next = std::size_t{0}]() mutable -> std::optional<input::LabeledBatch> {
      const Batch& batch = batches[next++ % batches.size()];
      return input::LabeledBatch{batch.features, batch.labels};
    };
  }

  static distribute::TowerOptions options(int towers) {
    distribute::TowerOptions options;
    for (int tower = 0; tower < towers; ++tower)
      options.devices.push_back("cpu:" + std::to_string(tower));
    return options;
  }

  distribute::ParallelOptimization<input::LabeledBatch> optimization_;
};

}  // namespace brigade::benchmarks
