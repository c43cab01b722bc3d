#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {

/// The rows of a tensor [N, ...], one element each: views, nothing is copied. Do not write to the
/// tensor afterwards. Throws kInvalidArgument for a scalar.
/// TensorFlow counterpart: Dataset.from_tensor_slices.
data::Dataset<at::Tensor> from_tensor_slices(at::Tensor rows,
                                             std::string name = "from_tensor_slices");

/// Row i of `features` [N, ...] with `labels[i]` as its label; `labels` is an integral tensor [N]
/// on the CPU. Throws kInvalidArgument, naming both counts, if they differ, or if `labels` has
/// another dtype or more dimensions.
data::Dataset<LabeledExample> from_tensor_slices(at::Tensor features, const at::Tensor& labels,
                                                 std::string name = "from_tensor_slices");

}  // namespace brigade::input
