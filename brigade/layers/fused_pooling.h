#pragma once

#include <ATen/core/Tensor.h>

namespace brigade::layers {

/// `relu(max_pool2d(conv2d(images, weight, bias), 2, stride 2))` with stride 1 and "same" padding:
/// `images` [N, in, H, W], `weight` [out, in, k, k] with odd k, `bias` [out]; the result is [N,
/// out, H/2, W/2]. The order of pooling and relu makes no difference (see max_pool2x2_relu).
///
/// Where max_pool2x2_relu uses its own kernel, a batch is processed in pieces, so that the result
/// of the convolution stays in the processor's cache until it is pooled, forward and backward: the
/// large intermediate tensor and its gradient never exist completely. Otherwise libtorch's
/// operations run in sequence. A weight's gradient is the sum over the pieces, so its last digits
/// may differ from those of the separate operations.
///
/// Can be differentiated once; a second time throws `Error{kUnimplemented}` where the kernel was
/// used. Throws `kInvalidArgument` naming the shapes if they do not fit. Thread-safety: a pure
/// function.
at::Tensor conv_pool_relu(const at::Tensor& images, const at::Tensor& weight,
                          const at::Tensor& bias);

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
