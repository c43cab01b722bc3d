#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/metrics/mean.h"
#include "brigade/metrics/metric.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/epoch_iterator.h"
#include "brigade/train/model/fit_options.h"
#include "brigade/train/model/fit_steps.h"
#include "brigade/train/model/loss.h"
#include "brigade/train/model/network.h"
#include "brigade/train/session/step_values.h"

namespace brigade::train {

/// The steps of a `Model`; for the sources of `Model` only.
namespace internal {

/// A metric and its name in logs.
struct NamedMetric {
  std::string name;
  std::shared_ptr<const metrics::PredictionMetric> metric;
};

/// Steps of training and validation on all replicas, and the metrics since the last reset.
///
/// Thread-safety: one thread, outside of replicas.
class Trainer {
 public:
  using Batch = distribute::PerReplica<input::LabeledBatch>;

  /// Creates the mean of the loss in the strategy's scope. `strategy` and `network` must outlive
  /// this object.
  Trainer(distribute::Strategy& strategy, const Network& network, Loss loss,
          std::vector<NamedMetric> metrics, distribute::Optimizer optimizer);

  /// One update. The values contain "loss": the mean over this batch, including regularization.
  StepValues train(const Batch& batch);
  /// Adds a batch to the metrics. The network must be in evaluation mode, and grad mode disabled.
  void test(const Batch& batch);

  /// "loss" and the metrics.
  Logs results() const;
  void reset() const;

  const metrics::Mean& loss_mean() const { return loss_mean_; }
  const std::vector<NamedMetric>& metrics() const { return metrics_; }
  const distribute::Optimizer& optimizer() const { return optimizer_; }
  const Network& network() const { return network_; }

 private:
  at::Tensor losses_of(const input::LabeledBatch& replica_batch,
                       const at::Tensor& predictions) const;
  void record(const input::LabeledBatch& replica_batch, const at::Tensor& predictions,
              const at::Tensor& losses) const;

  distribute::Strategy& strategy_;
  const Network& network_;
  const Loss loss_;
  const std::vector<NamedMetric> metrics_;
  const distribute::Optimizer optimizer_;
  const metrics::Mean loss_mean_;
};

}  // namespace internal

/// Runs the epochs of one `Model::fit`, whose steps a session runs; for `Model` only.
///
/// Checkpoints contain the epoch and batch, the metrics, and what `steps` have of the data, which
/// are added to `state`. When the session restores a checkpoint, the loop continues from there.
History run_fit(internal::Trainer& trainer, TrainingState& state, internal::FitSteps& steps,
                const FitOptions& options);

/// The metrics of `trainer` over one epoch of `data`, or its first `steps` batches, in evaluation
/// mode. Afterwards the network is in training mode, and the metrics are reset.
Logs evaluate_batches(internal::Trainer& trainer, const LabeledData::Distributed& data,
                      const std::optional<std::int64_t>& steps);

}  // namespace brigade::train
