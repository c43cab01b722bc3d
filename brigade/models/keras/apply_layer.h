#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "brigade/models/sequential_layers.h"
#include "brigade/variables/mode.h"

/// The computation of the layers of a `Sequential`; for the sources of this folder only.
namespace brigade::models {

/// Applies `layer` to `inputs`, with its variables under the scope `name`. Needs an open graph.
at::Tensor apply_layer(const Layer& layer, const std::string& name, const at::Tensor& inputs,
                       variables::Mode mode);

/// Whether the two layers can be fused: a convolution with relu, followed by 2x2 pooling.
bool are_fusible(const Layer& first, const Layer& second);
/// Applies `first`, whose name is `name`, and the 2x2 pooling after it, fused. `are_fusible` must
/// hold for the two layers.
at::Tensor apply_fused(const Layer& first, const std::string& name, const at::Tensor& inputs);

}  // namespace brigade::models
