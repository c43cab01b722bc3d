#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "brigade/data/dataset.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/io/file_system.h"

namespace brigade::input {

/// The rows of the tensor `name` [N, ...] in a safetensors file, one element each, read when they
/// are wanted: the file may be larger than the memory. Any walk may go to any row at once.
///
/// Throws as `io::FileSystem` does; kDataLoss, naming the file, if it is no sound safetensors file;
/// kNotFound, naming the tensors that are there, if none has that name; kInvalidArgument if it is a
/// scalar. A file that is cut short later gives elements that fail (kDataLoss).
data::Dataset<at::Tensor> from_safetensors(
    const io::Path& path, const std::string& name,
    std::shared_ptr<const io::FileSystem> files = io::posix_file_system());

/// Row i of the tensor `features` with element i of the integer tensor `labels` [N], which is read
/// at once. Throws kInvalidArgument too if there are not as many labels as rows.
data::Dataset<LabeledExample> from_safetensors(
    const io::Path& path, const std::string& features, const std::string& labels,
    std::shared_ptr<const io::FileSystem> files = io::posix_file_system());

}  // namespace brigade::input
