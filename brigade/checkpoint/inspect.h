#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

/// A tensor of an Inspection.
struct InspectedTensor {
  Section section = Section::kVariables;
  std::string name;
  std::string dtype;  ///< "float32"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::uint64_t not_finite = 0;  ///< Elements that are NaN or infinite.
};

/// The number of elements of a tensor that are NaN or infinite, as in the weights of a diverged
/// training. Thread-safety: a pure function.
std::uint64_t count_not_finite(const at::Tensor& tensor);

/// Describes the file or checkpoint at a path, for display.
struct Inspection {
  io::Path path;  ///< Of the checkpoint or file itself.
  /// "checkpoint", or that of a file of weights (`WeightsFormat`): "safetensors", "torch",
  /// "tensorflow".
  std::string format;
  std::optional<std::int64_t> step;  ///< Of a checkpoint, as are the next three fields.
  std::optional<std::int64_t> number;
  std::optional<std::int64_t> time_ms;  ///< When it was saved, since 1970, UTC.
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> metadata;
  std::vector<InspectedTensor> tensors;  ///< By section, then by name.
  /// Names of what a file has besides, and is not read: strings, numbers of a pickle.
  std::vector<std::string> left_out;
  std::uint64_t bytes = 0;  ///< Of all its files.
};

/// Inspects a checkpoint folder, a directory of checkpoints (the newest complete one), or weights
/// (`read_weights_file`: safetensors, PyTorch, TensorFlow). Reads every byte and refuses corrupt
/// data. Throws kNotFound, kDataLoss or kInvalidArgument naming the path; kDataLoss also for a file
/// whose weights do not match its recorded hash, unless `mismatch` allows it.
Inspection inspect(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                   HashMismatch mismatch = HashMismatch::kRefuse);

/// A tensor that differs between two files.
struct TensorDifference {
  Section section = Section::kVariables;
  std::string name;
  std::string a, b;  ///< "float32 [2, 3]": equal if only values differ.
  /// Over all elements, if dtype and shape are equal. NaN if one is NaN where the other is not.
  double max_abs_difference = 0;
  std::uint64_t differing = 0;  ///< Elements.
};

/// How two files or checkpoints, a and b, differ.
struct Comparison {
  Inspection a, b;
  std::vector<InspectedTensor> only_in_a, only_in_b;
  std::vector<TensorDifference> form_differs;   ///< Shape or dtype.
  std::vector<TensorDifference> value_differs;  ///< NaN equals NaN.
  std::size_t equal = 0;                        ///< Tensors.
  /// Steps, or state trees (their texts: arrays are compared as tensors).
  bool step_differs = false, state_differs = false;
  bool is_equal() const {
    return only_in_a.empty() && only_in_b.empty() && form_differs.empty() &&
           value_differs.empty() && !step_differs && !state_differs;
  }
};

/// Compares the files or checkpoints at two paths, each as in `inspect`. Time, number, metadata and
/// metrics are not compared; steps and states only if both have them.
Comparison compare(std::shared_ptr<const io::FileSystem> files, const io::Path& a,
                   const io::Path& b, HashMismatch mismatch = HashMismatch::kRefuse);

}  // namespace brigade::checkpoint
