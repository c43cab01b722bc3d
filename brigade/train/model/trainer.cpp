#include "brigade/train/model/trainer.h"

#include <ATen/ops/scalar_tensor.h>

#include "brigade/layers/v1/tf_losses.h"
#include "brigade/variables/graph.h"

namespace brigade::train::internal {
namespace {

metrics::Mean make_mean(distribute::Strategy& strategy) {
  const auto scope = strategy.scope();
  return metrics::Mean("loss");
}

/// The losses that layers and the model add in this pass: regularization and `add_loss`. An
/// undefined tensor if there are none.
at::Tensor added_losses() {
  at::Tensor sum;
  const auto add = [&sum](const std::vector<at::Tensor>& losses) {
    for (const at::Tensor& loss : losses) sum = sum.defined() ? sum + loss : loss;
  };
  add(layers::v1::losses::get_regularization_losses());
  add(variables::require_graph("Model::fit").losses());
  return sum;
}

}  // namespace

Trainer::Trainer(distribute::Strategy& strategy, const Network& network, Loss loss,
                 std::vector<NamedMetric> metrics, distribute::Optimizer optimizer)
    : strategy_(strategy),
      network_(network),
      loss_(std::move(loss)),
      metrics_(std::move(metrics)),
      optimizer_(std::move(optimizer)),
      loss_mean_(make_mean(strategy)) {}

at::Tensor Trainer::losses_of(const input::LabeledBatch& replica_batch,
                              const at::Tensor& predictions) const {
  const at::Tensor losses = loss_(replica_batch.labels, predictions);
  const at::Tensor added = added_losses();
  return added.defined() ? losses + added : losses;
}

void Trainer::record(const input::LabeledBatch& replica_batch, const at::Tensor& predictions,
                     const at::Tensor& losses) const {
  if (replica_batch.features.size(0) == 0) return;
  if (losses.dim() == 0) {
    loss_mean_.update_state(losses, at::scalar_tensor(replica_batch.features.size(0), at::kDouble));
  } else {
    loss_mean_.update_state(losses);
  }
  for (const NamedMetric& each : metrics_)
    each.metric->update_state(replica_batch.labels, predictions);
}

StepValues Trainer::train(const Batch& batch) {
  const auto means = strategy_.run(
      [this](distribute::ReplicaContext&, const input::LabeledBatch& replica_batch) {
        const at::Tensor predictions = network_.forward(replica_batch.features);
        const at::Tensor losses = losses_of(replica_batch, predictions);
        optimizer_.minimize(losses);
        const at::Tensor values = losses.detach();
        record(replica_batch, predictions.detach(), values);
        return values.mean();
      },
      batch);
  return {{"loss", strategy_.reduce_mean_over_examples(means)}};
}

void Trainer::test(const Batch& batch) {
  strategy_.run(
      [this](distribute::ReplicaContext&, const input::LabeledBatch& replica_batch) {
        const at::Tensor predictions = network_.forward(replica_batch.features);
        record(replica_batch, predictions, losses_of(replica_batch, predictions));
      },
      batch);
}

Logs Trainer::results() const {
  Logs logs = {{"loss", loss_mean_.result()}};
  for (const NamedMetric& each : metrics_) logs[each.name] = each.metric->result();
  return logs;
}

void Trainer::reset() const {
  loss_mean_.reset_state();
  for (const NamedMetric& each : metrics_) each.metric->reset_state();
}

}  // namespace brigade::train::internal
