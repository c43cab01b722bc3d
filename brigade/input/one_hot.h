#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace brigade::input {

/// Labels as rows of 0 with a 1 at the label's index: [..., classes] for integral labels [...].
/// Throws kInvalidArgument, naming the first label out of range and its index, if a label is not in
/// 0 to `classes` - 1 (TensorFlow silently gives a row of zeros). Call it as `input::one_hot`:
/// libtorch has a function of that name. TensorFlow counterpart: tf.one_hot.
at::Tensor one_hot(const at::Tensor& labels, std::int64_t classes,
                   at::ScalarType dtype = at::kFloat);

}  // namespace brigade::input
