#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/layers/layer_scope.h"
#include "brigade/variables/mode.h"

namespace brigade::layers::v1 {

struct BatchNormalizationOptions {
  double momentum = 0.99;  ///< the fraction of a moving statistic that is kept at each update
  double epsilon = 0.001;
  bool center = true;
  bool scale = true;
  BatchStatistics statistics = BatchStatistics::kReplica;
  /// As in tf.layers, the default is to normalize by the moving statistics.
  variables::Mode mode = variables::Mode::kEvaluation;
  bool trainable = true;
  LayerScope name = {};  ///< default: batch_normalization, batch_normalization_1, ...
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// As `layers::batch_norm`, with these defaults; for inputs with other than four dimensions the
/// moving variance follows the biased variance of the batch. TensorFlow:
/// tf.layers.batch_normalization.
at::Tensor batch_normalization(const at::Tensor& inputs,
                               const BatchNormalizationOptions& options = {});

}  // namespace brigade::layers::v1
