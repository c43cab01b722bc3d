#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/file_system.h"

namespace brigade::input {

/// The rows of the tensor `name` [N, ...] in a safetensors file, one element each. Rows are read on
/// demand, so the file may be larger than the memory, and any row can be accessed directly.
///
/// Throws as `io::FileSystem` does; kDataLoss, naming the file, if it is not a valid safetensors
/// file; kNotFound, listing the tensors, if none has that name; kInvalidArgument if it is a scalar.
/// A file that is truncated later gives elements that fail (kDataLoss).
data::Dataset<at::Tensor> from_safetensors(
    const io::Path& path, const std::string& name,
    std::shared_ptr<const io::FileSystem> files = io::posix_file_system());

/// Row i of the tensor `features` with element i of the integer tensor `labels` [N], which is read
/// immediately. Throws kInvalidArgument too if the numbers of labels and rows differ.
data::Dataset<LabeledExample> from_safetensors(
    const io::Path& path, const std::string& features, const std::string& labels,
    std::shared_ptr<const io::FileSystem> files = io::posix_file_system());

}  // namespace brigade::input
