#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "brigade/layers/activation.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/sliding_window.h"

/// The layers of TensorFlow 1's tf.layers: variables are called kernel and bias, there is no
/// activation unless one is given, windows stay inside the image, and unset options come from the
/// variable scope. Argument scopes apply to the Slim layers only, not to these.
namespace brigade::layers::v1 {

struct Conv2dOptions {
  Size2d strides = 1;
  Padding padding = Padding::kValid;
  Size2d dilation_rate = 1;
  Activation activation = nullptr;
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: the scope's, else Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  bool trainable = true;
  LayerScope name = {};  ///< default: conv2d, conv2d_1, ...
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// A convolution of `inputs` [N, C, H, W] with `filters` kernels. Variables: kernel [filters, C,
/// height, width], bias [filters]. TensorFlow: tf.layers.conv2d. Throws as `layers::conv2d`.
at::Tensor conv2d(const at::Tensor& inputs, std::int64_t filters, Size2d kernel_size,
                  const Conv2dOptions& options = {});

}  // namespace brigade::layers::v1
