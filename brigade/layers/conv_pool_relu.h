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

}  // namespace brigade::layers
