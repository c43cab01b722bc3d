#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "brigade/models/sequential_layers.h"
#include "brigade/variables/mode.h"

/// How the layers of a `Sequential` compute; for this folder's sources only.
namespace brigade::models {

/// `layer` of `inputs`, with the variables under the scope `name`. Needs an open graph.
at::Tensor apply_layer(const Layer& layer, const std::string& name, const at::Tensor& inputs,
                       variables::Mode mode);

/// Whether the two layers may be computed as one: a convolution with relu, and pooling by 2x2.
bool are_fusible(const Layer& first, const Layer& second);
/// `first`, called `name`, and then the pooling, of two layers for which `are_fusible` holds.
at::Tensor apply_fused(const Layer& first, const std::string& name, const at::Tensor& inputs);

}  // namespace brigade::models
