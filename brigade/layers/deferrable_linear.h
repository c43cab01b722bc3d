#pragma once

#include <ATen/core/Tensor.h>

namespace brigade::layers {

/// `at::linear`, with the same bits in the result and in all gradients. In pipelines its backward
/// pass defers the gradient of the weight (`variables::GradientDeferral`). Gradients of gradients
/// work. `bias` may be undefined. Thread-safety: a pure function.
at::Tensor deferrable_linear(const at::Tensor& inputs, const at::Tensor& weight,
                             const at::Tensor& bias = {});

}  // namespace brigade::layers
