#pragma once

#include <ATen/core/Tensor.h>

namespace brigade::layers {

/// `relu(max_pool2d(conv2d(images, weight, bias), 2, stride 2))` with stride 1 and "same" padding:
/// `images` [N, in, H, W], `weight` [out, in, k, k] with odd k, `bias` [out]; the result is [N,
/// out, H/2, W/2]. The order of pooling and relu makes no difference (see max_pool2x2_relu).
///
/// Where that function has a kernel of its own, a batch is worked off in pieces whose convolution's
/// result stays in the processor's cache until it has been pooled, forward and backward: the large
/// tensor between the two, and its gradient, never exist as a whole. Elsewhere it is libtorch's
/// operations one after the other. A weight's gradient is the sum over the pieces, so its last
/// digits may differ from those of the single operations.
///
/// Can be differentiated once; a second time throws `Error{kUnimplemented}` where the kernel was
/// used. Throws `kInvalidArgument` naming the shapes if they do not fit. Thread-safety: a pure
/// function.
at::Tensor conv_pool_relu(const at::Tensor& images, const at::Tensor& weight,
                          const at::Tensor& bias);

}  // namespace brigade::layers
