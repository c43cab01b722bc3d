#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>

namespace brigade::layers {

/// The gradients of a convolution's images, weight and bias; undefined unless they are wanted.
struct ConvolutionGradients {
  at::Tensor images, weight, bias;
};

/// Computes those that are wanted, in the order of `ConvolutionGradients`. libtorch computes the
/// gradient of the images, and those of weight and bias, in two products: the bits of one do not
/// depend on whether the other is wanted.
using ConvolutionBackward = std::function<ConvolutionGradients(std::array<bool, 3> wanted)>;

/// For the backward function of a convolution: defers the gradients of its weight and bias, those
/// of the two that are wanted (`variables::GradientDeferral`). Returns whether it did; if so, the
/// backward function returns neither, otherwise it must compute them now. `bytes`: the memory that
/// is kept until they are computed. `make` returns what computes them, with copies of what the
/// program may change.
bool defer_gradients(const at::Tensor& weight, const at::Tensor& bias, std::array<bool, 3> wanted,
                     std::int64_t bytes, const std::function<ConvolutionBackward()>& make);

/// `at::conv2d`, with the same bits in the result and in all gradients. In pipelines its backward
/// pass defers the gradients of weight and bias (`variables::GradientDeferral`). Gradients of
/// gradients work. `bias` may be undefined. Thread-safety: a pure function.
at::Tensor deferrable_conv2d(const at::Tensor& images, const at::Tensor& weight,
                             const at::Tensor& bias, std::array<std::int64_t, 2> stride,
                             std::array<std::int64_t, 2> padding,
                             std::array<std::int64_t, 2> dilation, std::int64_t groups);

}  // namespace brigade::layers
