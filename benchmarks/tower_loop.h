#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/memory_by_device.h"
#include "benchmarks/workload.h"
#include "brigade/distribute/optimizer/parallel_optimization.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mnist_cnn_function.h"
#include "brigade/optim/adam.h"

namespace brigade::benchmarks {

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
