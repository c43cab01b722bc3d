#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct BiasAddOptions {
  std::optional<Activation> activation = std::nullopt;                      ///< default none
  std::optional<variables::Initializer> biases_initializer = std::nullopt;  ///< default zeros
  std::optional<variables::Regularizer> biases_regularizer = std::nullopt;
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: BiasAdd, BiasAdd_1, ...
};

/// `inputs` [N, C, ...] plus the variable biases [C]. TensorFlow: slim.bias_add. Throws as
/// `conv2d`.
at::Tensor bias_add(const at::Tensor& inputs, const BiasAddOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<bias_add> = layer_kind<BiasAddOptions>("bias_add");

}  // namespace brigade::layers
