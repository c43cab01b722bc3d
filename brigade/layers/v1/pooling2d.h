#pragma once

#include <ATen/core/Tensor.h>

#include "brigade/layers/layer_scope.h"
#include "brigade/layers/sliding_window.h"

namespace brigade::layers::v1 {

struct PoolOptions {
  Padding padding = Padding::kValid;
  LayerScope name = {};  ///< default: max_pooling2d or average_pooling2d, made unique
};

/// As `layers::max_pool2d`. TensorFlow: tf.layers.max_pooling2d.
at::Tensor max_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                         const PoolOptions& options = {});
/// As `layers::avg_pool2d`. TensorFlow: tf.layers.average_pooling2d.
at::Tensor average_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                             const PoolOptions& options = {});

}  // namespace brigade::layers::v1
