#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/device/autocast_scope.h"
#include "brigade/layers/empty_braces.h"
#include "brigade/layers/layer_arguments.h"
#include "brigade/layers/layer_scope.h"
#include "brigade/layers/sliding_window.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/layer_value.h"
#include "brigade/variables/mode.h"
#include "brigade/variables/variable_options.h"

/// The layers of TensorFlow 1's tf.layers: variables are called kernel and bias, there is no
/// activation unless one is given, windows stay inside the image, and unset options come from the
/// variable scope. Argument scopes apply to the Slim layers only, not to these. Keras's layers
/// (`models/keras`) are the same functions under Keras's names.
namespace brigade::layers::v1 {

/// Options of `conv2d`; the defaults are TensorFlow's.
struct Conv2dOptions {
  /// The distance between two positions of the kernel.
  Size2d strides = 1;
  /// Whether windows stay inside the image, or zeros are put around it.
  Padding padding = Padding::kValid;
  /// The distance between two elements of the kernel's window.
  Size2d dilation_rate = 1;
  std::int64_t groups = 1;  ///< as `layers::Conv2dOptions::groups`; TensorFlow: Keras's Conv2D
  /// See `LayerArguments::memory_format`.
  std::optional<at::MemoryFormat> memory_format = std::nullopt;
  /// Applied to the result; null: none.
  Activation activation = nullptr;
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: the scope's, else Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  /// Penalties of the two variables; empty: the scope's, if it has one.
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  /// Whether optimizers change the variables.
  bool trainable = true;
  LayerScope name = {};  ///< default: conv2d, conv2d_1, ...
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// A convolution of `inputs` [N, C, H, W] with `filters` kernels. Variables: kernel [filters, C /
/// groups, height, width], bias [filters]. TensorFlow: tf.layers.conv2d. Throws as
/// `layers::conv2d`.
at::Tensor conv2d(const at::Tensor& inputs, std::int64_t filters, Size2d kernel_size,
                  const Conv2dOptions& options = {});

/// Options of `dense`; the defaults are TensorFlow's.
struct DenseOptions {
  /// Applied to the result; null: none.
  Activation activation = nullptr;
  bool use_bias = true;
  variables::Initializer kernel_initializer = {};  ///< default: the scope's, else Glorot uniform
  variables::Initializer bias_initializer = {};    ///< default: zeros
  /// Penalties of the two variables; empty: the scope's, if it has one.
  variables::Regularizer kernel_regularizer = {};
  variables::Regularizer bias_regularizer = {};
  /// Whether optimizers change the variables.
  bool trainable = true;
  LayerScope name = {};  ///< default: dense, dense_1, ...
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// `inputs` [..., in] times the kernel plus the bias. Variables: kernel [units, in] (the transpose
/// of TensorFlow's), bias [units]. TensorFlow: tf.layers.dense. Throws as
/// `layers::fully_connected`.
at::Tensor dense(const at::Tensor& inputs, std::int64_t units, const DenseOptions& options = {});

/// Options of `dropout`.
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
inline at::Tensor flatten(const at::Tensor& inputs, NoOptions) {
  return flatten(inputs, LayerScope());
}

/// Options of `batch_normalization`; the defaults are TensorFlow's.
struct BatchNormalizationOptions {
  double momentum = 0.99;  ///< the fraction of a moving statistic that is kept at each update
  /// Added to the variance before its root is taken.
  double epsilon = 0.001;
  /// Whether there is a beta, which is added, and a gamma, which multiplies.
  bool center = true;
  bool scale = true;
  /// The examples whose mean and variance are used in training.
  BatchStatistics statistics = BatchStatistics::kReplica;
  /// As in tf.layers, the default is to normalize by the moving statistics.
  variables::Mode mode = variables::Mode::kEvaluation;
  /// Whether optimizers change gamma and beta.
  bool trainable = true;
  LayerScope name = {};  ///< default: batch_normalization, batch_normalization_1, ...
  /// Whether the variables are created or found by their names.
  variables::Reuse reuse = variables::Reuse::kInherit;
};

/// As `layers::batch_norm`, with these defaults; for inputs with other than four dimensions the
/// moving variance follows the biased variance of the batch. TensorFlow:
/// tf.layers.batch_normalization.
at::Tensor batch_normalization(const at::Tensor& inputs,
                               const BatchNormalizationOptions& options = {});

/// Options of `max_pooling2d` and `average_pooling2d`.
struct PoolOptions {
  /// Whether windows stay inside the image, or may reach beyond it.
  Padding padding = Padding::kValid;
  LayerScope name = {};  ///< default: max_pooling2d or average_pooling2d, made unique
};

/// As `layers::max_pool2d`. TensorFlow: tf.layers.max_pooling2d.
at::Tensor max_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                         const PoolOptions& options = {});
/// As `layers::avg_pool2d`. TensorFlow: tf.layers.average_pooling2d.
at::Tensor average_pooling2d(const at::Tensor& inputs, Size2d pool_size, Size2d strides,
                             const PoolOptions& options = {});

// The variables of these layers, for layers that fuse several of them.

inline at::Tensor get_variable_like(const at::Tensor& like, const std::string& name,
                                    const std::vector<std::int64_t>& shape,
                                    variables::VariableOptions options) {
  options.dtype = device::variable_dtype(like);
  options.collections = {variables::kGlobalVariables, variables::kModelVariables};
  return variables::get_value(name, shape, options, like.device());
}

template <class Options>
at::Tensor get_kernel(const std::vector<std::int64_t>& shape, const at::Tensor& like,
                      const Options& options) {
  variables::VariableOptions kernel{.initializer = options.kernel_initializer,
                                    .regularizer = options.kernel_regularizer,
                                    .trainable = options.trainable};
  if constexpr (requires { options.memory_format; }) kernel.memory_format = options.memory_format;
  return get_variable_like(like, "kernel", shape, std::move(kernel));
}

/// The bias; undefined if the layer has none.
template <class Options>
at::Tensor get_bias(std::int64_t size, const at::Tensor& like, const Options& options) {
  if (!options.use_bias) return {};
  return get_variable_like(
      like, "bias", {size},
      {.initializer =
           options.bias_initializer ? options.bias_initializer : variables::zeros_initializer(),
       .regularizer = options.bias_regularizer,
       .trainable = options.trainable});
}

}  // namespace brigade::layers::v1
