#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

/// What the two forms of the MNIST network share: what they take.
namespace brigade::models {

inline constexpr std::int64_t kMnistSide = 28;

/// `images` [N, 1, 28, 28] or [N, 28, 28] as [N, 1, 28, 28] with plain strides. Throws
/// kInvalidArgument, naming `model` and the shape, for anything else.
at::Tensor mnist_planes(std::string_view model, const at::Tensor& images);

/// Throws kInvalidArgument unless there is a class and `dropout` lies in [0, 1).
void check_mnist_options(std::string_view model, std::int64_t classes, double dropout);

}  // namespace brigade::models
