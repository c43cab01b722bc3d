#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// The kernels of max_pool2x2_relu and conv_pool_relu. Internal: arguments are not checked, and
/// autograd does not record them.
namespace brigade::layers {

/// Whether the kernels support images of this dtype, device and layout, with this height and width.
bool fits_pool_kernel(const at::Tensor& like, std::int64_t height, std::int64_t width);
/// Whether the kernels support these tensors.
bool fits_pool_kernel(const at::Tensor& images);

/// Writes the largest of every 2x2 window of `images` [N, C, H, W], or 0 if that is more, to `out`
/// [N, C, H/2, W/2], and to `choices` (bytes, same shape) which of the four it was. All contiguous.
void pool_relu(const at::Tensor& images, at::Tensor& out, at::Tensor& choices);

/// The backward: writes the gradient of the images to `result` from that of the outputs. All
/// contiguous.
void spread_gradient(const at::Tensor& gradient, const at::Tensor& choices, at::Tensor& result);

}  // namespace brigade::layers
