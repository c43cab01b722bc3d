#include "apps/brigade/training_step.h"

#include "brigade/layers/losses.h"

namespace brigade::command {

distribute::PerReplica<at::Tensor> TrainingStep::run(
    const distribute::PerReplica<input::LabeledBatch>& batch) const {
  return strategy.run(
      [this](distribute::ReplicaContext&, const input::LabeledBatch& local) {
        const at::Tensor loss =
            layers::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
        optimizer.minimize(loss);
        return loss.detach();
      },
      batch);
}

double TrainingStep::mean(const distribute::PerReplica<at::Tensor>& losses) const {
  return strategy.reduce_mean_over_examples(losses).item<double>();
}

}  // namespace brigade::command
