#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/layer_arguments.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/variables/variable.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct BatchNormOptions {
  std::optional<double> decay = std::nullopt;                ///< default 0.999
  std::optional<bool> center = std::nullopt;                 ///< default true
  std::optional<bool> scale = std::nullopt;                  ///< default false
  std::optional<double> epsilon = std::nullopt;              ///< default 0.001
  variables::Initializer gamma_initializer = {};             ///< default: ones
  std::optional<Activation> activation = std::nullopt;       ///< default none
  std::optional<StatisticsUpdate> updates = std::nullopt;    ///< default kUpdateOps
  std::optional<BatchStatistics> statistics = std::nullopt;  ///< default kReplica
  std::optional<variables::Mode> mode = std::nullopt;        ///< default kTraining
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: BatchNorm, BatchNorm_1, ...
};

/// Normalizes `inputs` [N, C, ...] to mean 0 and variance 1 per channel over the calling replica's
/// batch, or over all replicas' (`BatchStatistics::kGlobal`), then multiplies by gamma and adds
/// beta; in evaluation it uses the moving statistics. Variables: beta, gamma (if scaled),
/// moving_mean, moving_variance [C]; the last two are not trainable, one per replica, and read as
/// their mean. In training the moving statistics are updated when the update ops run; a batch
/// without examples does not change them. As with TensorFlow's kernels, the moving variance of
/// inputs of two or four dimensions follows the unbiased variance (divided by one less than the
/// number of values), that of others the biased variance. TensorFlow: slim.batch_norm.
///
/// Throws kInvalidArgument for inputs of fewer than two dimensions or a decay outside of [0, 1];
/// otherwise as `conv2d`.
at::Tensor batch_norm(const at::Tensor& inputs, const BatchNormOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<batch_norm> = layer_kind<BatchNormOptions>("batch_norm");

/// `batch_norm` with these options, as the normalizer of another layer. Argument scopes of
/// `batch_norm` that are open when it runs apply too. Slim: normalizer_fn=batch_norm,
/// normalizer_params=...
Normalizer batch_normalizer(BatchNormOptions options = {});

/// See `LayerArguments` for what the fields mean.
struct LayerNormOptions {
  std::optional<bool> center = std::nullopt;            ///< default true
  std::optional<bool> scale = std::nullopt;             ///< default true
  std::optional<double> epsilon = std::nullopt;         ///< default 1e-12
  std::optional<Activation> activation = std::nullopt;  ///< default none
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: LayerNorm, LayerNorm_1, ...
};

/// Normalizes every example of `inputs` [N, C, ...] to mean 0 and variance 1 over all its elements,
/// then multiplies by gamma and adds beta, one of each per channel. Variables: beta, gamma [C].
/// TensorFlow: slim.layer_norm with begin_norm_axis 1. Throws as `conv2d`.
at::Tensor layer_norm(const at::Tensor& inputs, const LayerNormOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<layer_norm> = layer_kind<LayerNormOptions>("layer_norm");

// Shared by the layers that normalize.

/// The variables beta (zeros) and gamma (ones if `initializer` is empty) [C] of `like` [N, C, ...].
at::Tensor get_beta(const at::Tensor& like, const LayerArguments& arguments);
at::Tensor get_gamma(const at::Tensor& like, const LayerArguments& arguments,
                     const variables::Initializer& initializer = {});

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
