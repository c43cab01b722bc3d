#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace brigade::layers {

/// The function that a layer applies to its result at the end. Empty (`nullptr`): none.
using Activation = std::function<at::Tensor(const at::Tensor& inputs)>;

/// The function that a layer applies to its result before the activation, instead of adding biases.
/// Empty: none, and biases are added. For example `batch_normalizer({.decay = 0.9997})`.
using Normalizer = std::function<at::Tensor(const at::Tensor& inputs)>;

/// max(inputs, 0): the default activation of layers. Thread-safety: pure.
at::Tensor relu(const at::Tensor& inputs);

/// `activation` of a tensor that is not used elsewhere and not needed in backward: relu is computed
/// in place. For layers.
at::Tensor activate(const Activation& activation, at::Tensor fresh);

}  // namespace brigade::layers
