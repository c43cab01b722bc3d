#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/layers/layer_arguments.h"
#include "brigade/variables/variable.h"

/// Shared parts of normalizing layers. For layers.
namespace brigade::layers {

/// The variables beta (zeros) and gamma (ones) [C] of `like` [N, C, ...].
at::Tensor get_beta(const at::Tensor& like, const LayerArguments& arguments);
at::Tensor get_gamma(const at::Tensor& like, const LayerArguments& arguments);

/// How batch norm computes.
struct BatchNormStep {
  at::Tensor gamma, beta;
  double epsilon = 0.001;
  double decay = 0.999;
  StatisticsUpdate updates = StatisticsUpdate::kUpdateOps;
  /// What the moving variance follows: the biased variance of the batch, or the unbiased one
  /// (divided by one less; TensorFlow's fused kernels).
  enum class Variance { kOfBatch, kOfDistribution } variance = Variance::kOfDistribution;
  BatchStatistics statistics = BatchStatistics::kReplica;
  variables::Mode mode = variables::Mode::kTraining;
};

/// The variables moving_mean (zeros) and moving_variance (ones) [C] of `like`, one per replica; the
/// model's value is their mean.
struct MovingStatistics {
  variables::Variable mean, variance;
};
MovingStatistics get_moving_statistics(const at::Tensor& like, const LayerArguments& arguments);

/// `inputs` [N, C, ...] normalized by the statistics of the replica's batch or of the global one,
/// which also update the moving statistics; in evaluation by the moving statistics. An empty batch
/// does not change them.
at::Tensor normalized(const at::Tensor& inputs, const MovingStatistics& statistics,
                      const BatchNormStep& step);

}  // namespace brigade::layers
