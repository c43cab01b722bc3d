#pragma once

#include <ATen/core/Tensor.h>

namespace brigade::layers {

/// `relu(max_pool2d(images, 2, stride 2))` of `images` [N, C, H, W] in one pass: [N, C, H/2, W/2].
/// Equal to `max_pool2d(relu(images), 2)` too, in value and in gradient (where all four are at most
/// 0, both gradients are 0).
///
/// Contiguous float32 and float64 tensors on the CPU with even H and W, W at least 8, use Brigade's
/// own kernel: libtorch's max_pool2d is not vectorized for this layout and is more than ten times
/// slower. The kernel keeps one byte per output for backward instead of the whole input. Other
/// inputs use libtorch's two operations. As in libtorch, NaN is propagated, and ties go to the
/// first element of the window.
///
/// The kernel runs in the calling thread alone. It can be differentiated once; a second time throws
/// `Error{kUnimplemented}`. Throws `kInvalidArgument` unless `images` has four dimensions.
/// Thread-safety: a pure function.
at::Tensor max_pool2x2_relu(const at::Tensor& images);

}  // namespace brigade::layers
