#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct Conv2dOptions {
  std::optional<Size2d> stride = std::nullopt;    ///< default 1
  std::optional<Padding> padding = std::nullopt;  ///< default kSame
  std::optional<Size2d> rate = std::nullopt;      ///< default 1
  /// The channels of the images and of the result are divided into this many groups, and each group
  /// of the result depends on one group of the images (ResNeXt). Must divide both numbers.
  std::int64_t groups = 1;
  std::optional<at::MemoryFormat> memory_format = std::nullopt;              ///< default as it is
  std::optional<Activation> activation = std::nullopt;                       ///< default relu
  std::optional<Normalizer> normalizer = std::nullopt;                       ///< default none
  std::optional<variables::Initializer> weights_initializer = std::nullopt;  ///< Glorot uniform
  std::optional<variables::Regularizer> weights_regularizer = std::nullopt;
  std::optional<variables::Initializer> biases_initializer = std::nullopt;  ///< default zeros
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: Conv, Conv_1, ...
};

/// A convolution of `images` [N, C, H, W] with `num_outputs` kernels, then the normalizer or
/// biases, then the activation. Variables: weights [num_outputs, C / groups, kernel height, kernel
/// width], biases [num_outputs]. Computes where the open device scopes say. TensorFlow:
/// slim.conv2d.
///
/// Throws kInvalidArgument for images, numbers, groups or a window that do not fit;
/// kFailedPrecondition without a graph; otherwise as `get_variable`.
at::Tensor conv2d(const at::Tensor& images, std::int64_t num_outputs, Size2d kernel,
                  const Conv2dOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<conv2d> = layer_kind<Conv2dOptions>("conv2d");

/// See `LayerArguments` for what the fields mean.
struct SeparableConv2dOptions {
  /// The number of channels that the first convolution makes from each input channel.
  std::int64_t depth_multiplier = 1;
  std::optional<Size2d> stride = std::nullopt;                               ///< default 1
  std::optional<Padding> padding = std::nullopt;                             ///< default kSame
  std::optional<Size2d> rate = std::nullopt;                                 ///< default 1
  std::optional<at::MemoryFormat> memory_format = std::nullopt;              ///< default as it is
  std::optional<Activation> activation = std::nullopt;                       ///< default relu
  std::optional<Normalizer> normalizer = std::nullopt;                       ///< default none
  std::optional<variables::Initializer> weights_initializer = std::nullopt;  ///< Glorot uniform
  /// Default: `weights_initializer`.
  variables::Initializer pointwise_initializer = {};
  std::optional<variables::Regularizer> weights_regularizer = std::nullopt;
  std::optional<variables::Initializer> biases_initializer = std::nullopt;  ///< default zeros
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: SeparableConv2d, SeparableConv2d_1, ...
};

/// A separate convolution of each channel of `images` [N, C, H, W], then a 1 x 1 convolution over
/// all channels, then the normalizer or biases, then the activation. Without a number of outputs
/// the second convolution is left out, and the result has C * depth_multiplier channels. Variables:
/// depthwise_weights [C * depth_multiplier, 1, kernel height, kernel width], pointwise_weights
/// [num_outputs, C * depth_multiplier, 1, 1], biases. TensorFlow: slim.separable_conv2d (whose
/// depthwise weights are [height, width, C, depth_multiplier], the same numbers in another order).
///
/// Throws as `conv2d`.
at::Tensor separable_conv2d(const at::Tensor& images, std::optional<std::int64_t> num_outputs,
                            Size2d kernel, const SeparableConv2dOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<separable_conv2d> =
    layer_kind<SeparableConv2dOptions>("separable_conv2d");

}  // namespace brigade::layers
