#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace brigade::checkpoint {

/// How a program orders the dimensions of weights.
enum class WeightsLayout {
  kTorch,       ///< libtorch's and Brigade's: dense [out, in], convolution [out, in, height, width]
  kTensorFlow,  ///< dense [in, out], convolution [height, width, in, out]; `to_torch_layout`
};

/// The shape of one image before it was flattened.
struct FlattenedImage {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// A variable's name without what `tf.train.Checkpoint` appends to it:
/// "layer/kernel" of "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE".
std::string_view without_attribute_suffix(std::string_view stored);

/// Converts the value that TensorFlow stored as `stored`, for Brigade's variable `variable`, to
/// libtorch's layout. What is converted depends on the kind of the variable alone, which is the
/// last component of its stored name (before `/ExponentialMovingAverage`), never on whether a shape
/// happens to fit (a square matrix always fits):
///
/// | last component | rank | TensorFlow | here |
/// |---|---|---|---|
/// | weights, kernel, pointwise_weights, pointwise_kernel | 2 | [in, out] | [out, in] |
/// | the same | 3 to 5 | [window..., in, out] | [out, in, window...] |
/// | depthwise_weights, depthwise_kernel | 4 | [h, w, C, m] | [C m, 1, h, w] |
///
/// Everything else is returned as it is: biases, statistics, embeddings (also one called
/// `embeddings`; but a table that is called `weights` is transposed: rename it in TensorFlow). If
/// the last component of `variable` is one of a depthwise convolution, so is a stored `kernel`: in
/// Keras 3 it is called that.
///
/// A dense layer after a flattened image sums the same pixels in another order: TensorFlow
/// flattens [height, width, channels], libtorch [channels, height, width]. Only `flattened`, the
/// shape before that layer, says so; then the matrix's inputs are reordered, too. Without it such a
/// layer gets permuted weights, and the model computes nonsense.
///
/// Throws kInvalidArgument if `flattened` does not agree with the matrix, or the value is not one.
/// Thread-safety: a pure function.
at::Tensor to_torch_layout(const at::Tensor& value, std::string_view stored,
                           std::string_view variable,
                           const std::optional<FlattenedImage>& flattened = std::nullopt);

}  // namespace brigade::checkpoint
