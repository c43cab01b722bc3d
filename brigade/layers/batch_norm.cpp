#include "brigade/layers/batch_norm.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/checks.h"
#include "brigade/layers/normalization.h"

namespace brigade::layers {
namespace {

void check_decay(double decay) {
  if (decay >= 0.0 && decay <= 1.0) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("batch_norm: decay is ", decay, "; expected a number from 0 to 1"));
}

}  // namespace

at::Tensor batch_norm(const at::Tensor& inputs, const BatchNormOptions& options) {
  auto arguments = arguments_in_force(kLayerKind<batch_norm>, options);
  check_dimensions("batch_norm", inputs, 2);
  check_decay(arguments.decay.value_or(0.999));
  if (!arguments.activation) arguments.activation = nullptr;
  const OpenLayer layer(options.scope, "BatchNorm", arguments.reuse);
  const auto input = layer.place("FusedBatchNorm", inputs);
  const BatchNormStep step{
      .gamma = arguments.scale.value_or(false) ? get_gamma(input, arguments) : at::Tensor(),
      .beta = arguments.center.value_or(true) ? get_beta(input, arguments) : at::Tensor(),
      .epsilon = arguments.epsilon.value_or(0.001),
      .decay = arguments.decay.value_or(0.999),
      .updates = arguments.updates.value_or(StatisticsUpdate::kUpdateOps),
      .variance = input.dim() == 2 || input.dim() == 4 ? BatchNormStep::Variance::kOfDistribution
                                                       : BatchNormStep::Variance::kOfBatch,
      .statistics = arguments.statistics.value_or(BatchStatistics::kReplica),
      .mode = arguments.mode.value_or(variables::Mode::kTraining)};
  const auto statistics = get_moving_statistics(input, arguments);
  return finished(layer, arguments, normalized(input, statistics, step));
}

Normalizer batch_normalizer(BatchNormOptions options) {
  return [options = std::move(options)](const at::Tensor& inputs) {
    return batch_norm(inputs, options);
  };
}

}  // namespace brigade::layers
