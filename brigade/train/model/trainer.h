#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/named_tensors.h"
#include "brigade/metrics/mean.h"
#include "brigade/metrics/metric.h"
#include "brigade/train/callbacks/history.h"
#include "brigade/train/model/class_weights.h"
#include "brigade/train/model/compile_options.h"
#include "brigade/train/model/model_batch.h"
#include "brigade/train/model/network.h"
#include "brigade/train/model/output_losses.h"
#include "brigade/train/session/step_values.h"

/// The steps of a `Model`; for its sources only.
namespace brigade::train::internal {

/// A metric and its name in logs.
struct NamedMetric {
  std::string name;
  std::string output;  ///< empty: the only one
  bool is_weighted = false;
  std::shared_ptr<const metrics::PredictionMetric> metric;
};

/// The metrics that `options` ask for, made in the strategy's scope. Throws kInvalidArgument if two
/// would have one name in the logs, and for an object that is given twice.
std::vector<NamedMetric> make_metrics(distribute::Strategy& strategy,
                                      const CompileOptions& options);

/// What a `Trainer` is made of, from the options of `compile`.
struct TrainerParts {
  OutputLosses losses;
  OutputLabels labels;
  std::vector<NamedMetric> metrics;
  std::optional<CustomTrainStep> step = std::nullopt;
};
/// Throws kInvalidArgument, by name, for options that do not fit together.
TrainerParts parts_of(distribute::Strategy& strategy, const CompileOptions& options);

/// Steps of training and validation on all replicas, and the metrics since the last reset.
///
/// Thread-safety: one thread, outside of replicas; what a step of the program's own calls, from
/// replicas.
class Trainer {
 public:
  using Batch = distribute::PerReplica<ModelBatch>;

  /// Creates the means of losses in the strategy's scope. `strategy` and `network` must outlive
  /// this object.
  Trainer(distribute::Strategy& strategy, const Network& network, TrainerParts parts,
          distribute::Optimizer optimizer);

  /// One update. The values are means over this batch: "loss" with regularization and, of a model
  /// with several losses, those of the outputs; or those of the program's own step. `class_weights`
  /// may be null.
  StepValues train(const Batch& batch, const ClassWeights* class_weights = nullptr);
  /// Adds a batch to the metrics. The network must be in evaluation mode, and grad mode disabled.
  void test(const Batch& batch);

  /// The logs of training: the losses and metrics, or those of the program's own step.
  Logs training_results() const;
  /// The losses and the metrics.
  Logs results() const;
  void reset() const;

  /// The means of losses and of what the program's own step returns, and the metrics, in a fixed
  /// order.
  const std::vector<const metrics::Metric*>& all_metrics() const { return all_; }
  const distribute::Optimizer& optimizer() const { return optimizer_; }
  const Network& network() const { return network_; }

  /// For `TrainStepContext`, in a replica.
  at::Tensor loss_of(const ModelBatch& replica_batch, const input::NamedTensors& outputs) const;
  void update_metrics(const ModelBatch& replica_batch, const input::NamedTensors& outputs) const;

 private:
  struct NamedMean {
    std::string name;
    std::unique_ptr<const metrics::Mean> mean;
  };
  void add_mean(const std::string& name);
  const metrics::Mean& mean(std::string_view name) const;
  const NamedMetric* find_metric(std::string_view name) const;
  OutputLosses::Values losses_of(const ModelBatch& replica_batch,
                                 const input::NamedTensors& outputs) const;
  void record(const ModelBatch& replica_batch, const input::NamedTensors& outputs,
              const OutputLosses::Values& losses) const;
  distribute::StepLoss usual_step(const ModelBatch& replica_batch) const;
  at::Tensor own_step(distribute::ReplicaContext& replica, const ModelBatch& replica_batch) const;

  distribute::Strategy& strategy_;
  const Network& network_;
  const TrainerParts parts_;
  const distribute::Optimizer optimizer_;
  std::vector<NamedMean> means_;          // the loss first
  std::vector<std::string> step_values_;  // names of what a training step returns
  std::vector<const metrics::Metric*> all_;
};

}  // namespace brigade::train::internal
