#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace brigade::input {

/// Labels as rows of 0 with a 1 at the label's place: [..., classes] for integral labels [...].
/// Throws kInvalidArgument, naming the first one and its place, if a label lies outside 0 to
/// `classes` - 1 (TensorFlow gives a row of zeros then, and training goes quietly wrong).
/// Call it as `input::one_hot`: libtorch has one of that name. TensorFlow counterpart: tf.one_hot.
at::Tensor one_hot(const at::Tensor& labels, std::int64_t classes,
                   at::ScalarType dtype = at::kFloat);

}  // namespace brigade::input
