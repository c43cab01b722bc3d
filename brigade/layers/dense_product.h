#pragma once

#include <ATen/core/Tensor.h>

namespace brigade::layers {

/// `inputs` [..., in] times the transpose of `weight` [out, in], plus `bias` [out] if it is
/// defined: `at::linear`, with kernels of its own (`SmallBatchProducts`) for a few examples and
/// large weights, such as the shards of logical replicas, micro-batches and inference have. There
/// libtorch copies the weights in each product. docs/design/mnist-cnn-speed.md says what is gained.
///
/// The kernels run for float32 on CPUs with AVX2, without autocast: `inputs` [examples, in] with 2
/// to 32 examples and a multiple of 16 for `in`, weights of at least a million elements. That of
/// the weights' gradient runs for up to 64 examples. All else is `at::linear`. The last digits of
/// both differ, as they do between shapes in `at::linear`; the number of threads changes nothing.
/// Gradients of gradients work. Thread-safety: a pure function.
///
/// The gradient of the weights may be deferred (`variables::gradient_deferral`), as the product
/// that it is: the logical replicas of a device compute the sum of theirs in one pass.
at::Tensor dense_product(const at::Tensor& inputs, const at::Tensor& weight,
                         const at::Tensor& bias = {});

}  // namespace brigade::layers
