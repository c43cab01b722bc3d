#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "brigade/layers/arg_scope.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

/// See `LayerArguments` for what the fields mean.
struct LayerNormOptions {
  std::optional<bool> center = std::nullopt;            ///< default true
  std::optional<bool> scale = std::nullopt;             ///< default true
  std::optional<double> epsilon = std::nullopt;         ///< default 1e-12
  std::optional<Activation> activation = std::nullopt;  ///< default none
  std::optional<variables::Reuse> reuse = std::nullopt;
  std::vector<std::string> variables_collections = {};
  std::vector<std::string> outputs_collections = {};
  std::optional<bool> trainable = std::nullopt;
  LayerScope scope = {};  ///< default: LayerNorm, LayerNorm_1, ...
};

/// Normalizes every example of `inputs` [N, C, ...] to mean 0 and variance 1 over all its elements,
/// then multiplies by gamma and adds beta, one of each per channel. Variables: beta, gamma [C].
/// TensorFlow: slim.layer_norm with begin_norm_axis 1. Throws as `conv2d`.
at::Tensor layer_norm(const at::Tensor& inputs, const LayerNormOptions& options = {});
template <>
inline constexpr LayerKind kLayerKind<layer_norm> = layer_kind<LayerNormOptions>("layer_norm");

}  // namespace brigade::layers
