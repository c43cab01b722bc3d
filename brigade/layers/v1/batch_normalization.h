#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/layers/layer_scope.h"
#include "brigade/variables/mode.h"

namespace brigade::layers::v1 {

struct BatchNormalizationOptions {
  double momentum = 0.99;  ///< how much of a moving statistic stays at each update
  double epsilon = 0.001;
  Center center = Center::kYes;
  Scale scale = Scale::kYes;
  BatchStatistics statistics = BatchStatistics::kReplica;
  /// tf.layers normalizes by the moving statistics unless it is told that this is training.
  variables::Mode mode = variables::Mode::kEvaluation;
  variables::Trainable trainable = variables::Trainable::kYes;
  LayerScope name = {};  ///< default: batch_normalization, batch_normalization_1, ...
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// As `layers::batch_norm`, with these defaults; inputs of other than four dimensions have a moving
/// variance that follows the batch's own. TensorFlow: tf.layers.batch_normalization.
at::Tensor batch_normalization(const at::Tensor& inputs,
                               const BatchNormalizationOptions& options = {});

}  // namespace brigade::layers::v1
