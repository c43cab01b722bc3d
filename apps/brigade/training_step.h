#pragma once

#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
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
      const distribute::PerReplica<input::LabeledBatch>& batch) const;
  /// The mean loss over the global batch. Waits for the devices.
  double mean(const distribute::PerReplica<at::Tensor>& losses) const;
};

}  // namespace brigade::command
