// What logical replicas cost, in pairs of blocks of steps: one on each of two devices over the same
// without the option, several on a device over gradient accumulation, and over one replica with the
// whole batch. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/bare_models.h"
#include "benchmarks/pairs.h"
#include "benchmarks/workload.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {
namespace {

/// Steps of a strategy on batches in memory.
class Loop {
 public:
  using Batches = distribute::PerReplica<input::LabeledBatch>;

  /// Each replica has `batch_size` examples in a call of `run`; `accumulate` of these make a step.
  Loop(Workload workload, std::unique_ptr<distribute::Strategy> strategy, std::int64_t batch_size,
       int accumulate = 1)
      : strategy_(std::move(strategy)), accumulate_(accumulate) {
    split(workload, batch_size);
    if (workload == Workload::kMnistCnn) {
      make_run(strategy_->create<models::MnistCnn>(), optim::Adam{.learning_rate = 1e-3});
    } else {
      make_run(strategy_->create<models::Mlp>(mlp_options(workload)),
               optim::Sgd{.learning_rate = 1e-3});
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps * accumulate_; ++i) run_(batches_[position_++ % batches_.size()]);
  }

 private:
  void split(Workload workload, std::int64_t batch_size) {
    const int replicas = strategy_->num_replicas_in_sync();
    std::vector<std::vector<input::LabeledBatch>> by_step;
    for (int replica = 0; replica < replicas; ++replica) {
      auto mine = make_batches(workload, batch_size);
      by_step.resize(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i)
        by_step[i].push_back({std::move(mine[i].features), std::move(mine[i].labels)});
    }
    const distribute::ExampleCounts counts{
        .local = std::vector<std::int64_t>(static_cast<std::size_t>(replicas), batch_size),
        .global = batch_size * replicas};
    for (auto& of_step : by_step) batches_.emplace_back(std::move(of_step), counts);
  }

  template <class Model, class Rule>
  void make_run(Model model, const Rule& rule) {
    auto optimizer = strategy_->optimizer(model, rule, {.accumulate = accumulate_});
    run_ = [this, model = std::move(model),
            optimizer = std::move(optimizer)](const Batches& batches) mutable {
      strategy_->run(
          [&](distribute::ReplicaContext&, const input::LabeledBatch& batch) {
            optimizer.minimize(
                layers::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels));
          },
          batches);
    };
  }

  std::unique_ptr<distribute::Strategy> strategy_;
  const int accumulate_;
  std::vector<Batches> batches_;
  std::size_t position_ = 0;
  std::function<void(const Batches&)> run_;  // holds the model and its optimizer
};

struct Options {
  std::string comparison = "accumulation";
  std::string model = "mnist_cnn";
  int replicas = 4;
  std::int64_t batch = 0;
  PairOptions pairs = {.pairs = 30, .steps = 4};
};

std::unique_ptr<distribute::Strategy> two_devices(int logical_replicas) {
  return std::make_unique<distribute::MirroredStrategy>(distribute::MirroredOptions{
      .devices = {"cpu:0", "cpu:1"}, .logical_replicas = logical_replicas});
}

std::unique_ptr<distribute::Strategy> one_device(int logical_replicas) {
  return std::make_unique<distribute::OneDeviceStrategy>(
      distribute::OneDeviceOptions{.device = "cpu:0", .logical_replicas = logical_replicas});
}

Ratios compare_with(const Options& o) {
  const Workload workload = parse_workload(o.model);
  const std::int64_t batch = o.batch > 0 ? o.batch : default_batch(workload);
  if (o.comparison == "devices")
    return compare([&] { return std::make_unique<Loop>(workload, two_devices(2), batch); },
                   [&] { return std::make_unique<Loop>(workload, two_devices(0), batch); },
                   o.pairs);
  const std::int64_t shard = batch / o.replicas;
  const auto subject = [&] {
    return std::make_unique<Loop>(workload, one_device(o.replicas), shard);
  };
  if (o.comparison == "accumulation")
    return compare(
        subject, [&] { return std::make_unique<Loop>(workload, one_device(0), shard, o.replicas); },
        o.pairs);
  return compare(
      subject, [&] { return std::make_unique<Loop>(workload, one_device(0), batch); }, o.pairs);
}

void measure(const Options& options) {
  at::set_num_threads(1);
  const Ratios ratios = compare_with(options);
  std::cout << "{\"comparison\": \"" << options.comparison << "\", \"model\": \"" << options.model
            << "\", \"logical_replicas\": " << options.replicas
            << ", \"pairs\": " << ratios.wall.size() << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("Steps with logical replicas over steps without");
  app.add_option("--comparison", options.comparison,
                 "devices: one on each of two devices over the same without the option. "
                 "accumulation: several on a device over as many accumulated batches. whole: the "
                 "same over one replica with the whole batch")
      ->check(CLI::IsMember({"devices", "accumulation", "whole"}));
  app.add_option("--model", options.model)->check(CLI::IsMember({"mnist_cnn", "mlp64"}));
  app.add_option("--replicas", options.replicas, "logical replicas of one device")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "examples a step (devices: a replica and step)");
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("logical_replica_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
