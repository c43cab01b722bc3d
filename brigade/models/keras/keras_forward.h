#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "brigade/models/keras/keras_layers.h"
#include "brigade/variables/mode.h"

namespace brigade::models {

/// The forward pass of a sequence of layers, all of which have names. For `Sequential`.
///
/// Throws as `Sequential`. Thread-safety: one thread per graph, as layers.
at::Tensor apply_layers(const std::vector<Layer>& layers, const at::Tensor& inputs,
                        variables::Mode mode);

}  // namespace brigade::models
