#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"

namespace brigade::checkpoint {

struct InspectedTensor {
  Section section = Section::kVariables;
  std::string name;
  std::string dtype;  ///< "float32"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::uint64_t not_finite = 0;  ///< Elements that are NaN or infinite.
};

/// How many elements of a tensor are NaN or infinite: weights of a training that has diverged.
/// Thread-safety: a pure function.
std::uint64_t count_not_finite(const at::Tensor& tensor);

/// What lies at a path, for people.
struct Inspection {
  io::Path path;                     ///< Of the checkpoint or file itself.
  std::string format;                ///< "checkpoint", "safetensors" or "torch".
  std::optional<std::int64_t> step;  ///< Of a checkpoint; so are the next three.
  std::optional<std::int64_t> number;
  std::optional<std::int64_t> time_ms;  ///< When it was saved, since 1970, UTC.
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> metadata;
  std::vector<InspectedTensor> tensors;  ///< By section, then by name.
  std::uint64_t bytes = 0;               ///< Of all its files.
};

/// Looks at a checkpoint's folder, at a directory of checkpoints (the newest whole one), at a
/// safetensors file, or at a PyTorch file. Reads every byte: what is broken is refused. Throws
/// kNotFound, kDataLoss or kInvalidArgument naming the path; of a file of weights that are not
/// those whose hash it records, kDataLoss unless `mismatch` allows it.
Inspection inspect(std::shared_ptr<const io::FileSystem> files, const io::Path& path,
                   HashMismatch mismatch = HashMismatch::kRefuse);

/// A tensor that two files hold and that differs.
struct TensorDifference {
  Section section = Section::kVariables;
  std::string name;
  std::string a, b;  ///< "float32 [2, 3]": equal if only values differ.
  /// Over all elements, if the forms are equal. NaN if one is NaN where the other is not.
  double max_abs_difference = 0;
  std::uint64_t differing = 0;  ///< Elements.
};

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

/// Compares what lies at two paths, each as `inspect` takes it. Time, number and metadata are not
/// compared, nor are metrics; steps and states only if both have them.
Comparison compare(std::shared_ptr<const io::FileSystem> files, const io::Path& a,
                   const io::Path& b, HashMismatch mismatch = HashMismatch::kRefuse);

}  // namespace brigade::checkpoint
