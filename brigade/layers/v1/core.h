#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "brigade/layers/v1/convolution.h"
#include "brigade/variables/mode.h"

namespace brigade::layers::v1 {

struct DenseOptions {
  Activation activation = nullptr;
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: the scope's, else Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  bool trainable = true;
  LayerScope name = {};  ///< default: dense, dense_1, ...
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// `inputs` [..., in] times the kernel plus the bias. Variables: kernel [units, in] (the transpose
/// of TensorFlow's), bias [units]. TensorFlow: tf.layers.dense. Throws as
/// `layers::fully_connected`.
at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const DenseOptions& options = {});

struct DropoutOptions {
  double rate = 0.5;  ///< the fraction of elements that is set to zero, from 0 to below 1
  /// As in tf.layers, the default drops nothing.
  variables::Mode mode = variables::Mode::kEvaluation;
  LayerScope name = {};  ///< default: dropout, dropout_1, ...
};
/// As `layers::dropout`. TensorFlow: tf.layers.dropout.
at::Tensor dropout(const at::Tensor& inputs, const DropoutOptions& options = {});

/// As `layers::flatten`. TensorFlow: tf.layers.flatten.
at::Tensor flatten(const at::Tensor& inputs, const LayerScope& name = {});

}  // namespace brigade::layers::v1
