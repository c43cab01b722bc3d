#include "brigade/layers/v1/batch_normalization.h"

#include "brigade/layers/checks.h"
#include "brigade/layers/normalization.h"

namespace brigade::layers::v1 {

at::Tensor batch_normalization(const at::Tensor& inputs, const BatchNormalizationOptions& options) {
  check_dimensions("batch_normalization", inputs, 2);
  const OpenLayer layer(options.name, "batch_normalization", options.reuse);
  const auto input = layer.place("FusedBatchNorm", inputs);
  const LayerArguments arguments{.trainable = options.trainable};
  const BatchNormStep step{.gamma = get_gamma(input, options.scale, arguments),
                           .beta = get_beta(input, options.center, arguments),
                           .epsilon = options.epsilon,
                           .decay = options.momentum,
                           .variance = input.dim() == 4 ? BatchNormStep::Variance::kOfDistribution
                                                        : BatchNormStep::Variance::kOfBatch,
                           .statistics = options.statistics,
                           .mode = options.mode};
  return normalized(input, get_moving_statistics(input, arguments), step);
}

}  // namespace brigade::layers::v1
