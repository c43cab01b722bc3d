#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace brigade::layers {

/// `inputs` divided by their length along `dimension`: sqrt(epsilon + sum of squares). `scope`
/// names it in the graph, if one is open: default UnitNorm, made unique. TensorFlow:
/// slim.unit_norm. Throws kInvalidArgument for a dimension that the inputs do not have.
at::Tensor unit_norm(const at::Tensor& inputs, std::int64_t dimension, double epsilon = 1e-7,
                     const std::string& scope = "");

}  // namespace brigade::layers
