#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

/// Checks of the inputs and options of both forms of the MNIST network.
namespace brigade::models {

inline constexpr std::int64_t kMnistSide = 28;

/// `images` [N, 1, 28, 28] or [N, 28, 28] as [N, 1, 28, 28], contiguous. Throws kInvalidArgument,
/// with `model` and the shape, for any other shape.
at::Tensor mnist_planes(std::string_view model, const at::Tensor& images);

/// Throws kInvalidArgument unless `classes` is at least 1 and `dropout` is in [0, 1).
void check_mnist_options(std::string_view model, std::int64_t classes, double dropout);

}  // namespace brigade::models
