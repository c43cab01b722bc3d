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
struct FullyConnectedOptions {
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
  LayerScope scope = {};  ///< default: fully_connected, fully_connected_1, ...
};

/// `inputs` [..., in] times weights, then the normalizer or biases, then the activation: [...,
/// num_outputs]. Variables: weights [num_outputs, in] (the transpose of TensorFlow's), biases
/// [num_outputs]. TensorFlow: slim.fully_connected.
///
/// Throws kInvalidArgument for inputs of fewer than two dimensions, otherwise as `conv2d`.
at::Tensor fully_connected(const at::Tensor& inputs, std::int64_t num_outputs,
                           const FullyConnectedOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<fully_connected> =
    layer_kind<FullyConnectedOptions>("fully_connected");

}  // namespace brigade::layers
