#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>

namespace brigade::layers {

/// The gradients by a convolution's images, weight and bias; undefined unless they are wanted.
struct ConvolutionGradients {
  at::Tensor images, weight, bias;
};

/// Computes those that are wanted, in the order of `ConvolutionGradients`. libtorch computes the
/// gradient of the images, and those of weight and bias, in two products: the bits of one do not
/// depend on whether the other is wanted.
using ConvolutionBackward = std::function<ConvolutionGradients(std::array<bool, 3> wanted)>;

/// For the backward function of a convolution: hands the gradients of its weight and bias over to
/// whoever computes them later (`variables::GradientDeferral`), those of the two that are wanted.
/// Returns whether it did: then the backward function returns none of them. Otherwise nobody takes
/// them now, and all are to be computed. `bytes`: what is kept until then. `make` makes what
/// computes them, with copies of what the program may change.
bool hand_over_gradients(const at::Tensor& weight, const at::Tensor& bias,
                         std::array<bool, 3> wanted, std::int64_t bytes,
                         const std::function<ConvolutionBackward()>& make);

/// `at::conv2d`, with the same bits in the result and in all gradients, whose backward pass hands
/// the gradients of weight and bias over where somebody takes them: in pipelines. Gradients of
/// gradients work. `bias` may be undefined. Thread-safety: a pure function.
at::Tensor deferrable_conv2d(const at::Tensor& images, const at::Tensor& weight,
                             const at::Tensor& bias, std::array<std::int64_t, 2> stride,
                             std::array<std::int64_t, 2> padding,
                             std::array<std::int64_t, 2> dilation, std::int64_t groups);

}  // namespace brigade::layers
