#pragma once

#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/layers/losses.h"
#include "brigade/models/classifier.h"

namespace brigade::command {

using Model = distribute::Replicated<models::Classifier>;

/// One step of training a classifier. Borrows its members.
struct TrainingStep {
  distribute::Strategy& strategy;
  const Model& model;
  const distribute::Optimizer& optimizer;

  /// Trains on a global batch. Returns each replica's mean loss, without waiting for the devices.
  distribute::PerReplica<at::Tensor> run(
      const distribute::PerReplica<input::LabeledBatch>& batch) const {
    const auto train = [this](const input::LabeledBatch& local) {
      const at::Tensor loss =
          layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
      optimizer.minimize(loss);
      return loss.detach();
    };
    return strategy.run(train, batch);
  }
  /// The mean loss over the global batch. Waits for the devices.
  double mean(const distribute::PerReplica<at::Tensor>& losses) const {
    return strategy.reduce_mean_over_examples(losses).item<double>();
  }
};

}  // namespace brigade::command
