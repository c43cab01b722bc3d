#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace brigade::layers {

/// What a layer does to its result at the end. Empty (`nullptr`): nothing.
using Activation = std::function<at::Tensor(const at::Tensor& inputs)>;

/// What a layer does to its result before the activation, in place of adding biases. Empty:
/// nothing, and biases are added. For example `batch_normalizer({.decay = 0.9997})`.
using Normalizer = std::function<at::Tensor(const at::Tensor& inputs)>;

/// max(inputs, 0): the activation that layers have if nothing is said. Thread-safety: pure.
at::Tensor relu(const at::Tensor& inputs);

/// `activation` of a tensor that nothing else holds and no backward needs: relu then overwrites it.
/// For layers.
at::Tensor activate(const Activation& activation, at::Tensor fresh);

}  // namespace brigade::layers
