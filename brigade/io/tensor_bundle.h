#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/io/safetensors_header.h"

namespace brigade::io {

/// The bytes of a tensor, or of a part of one, in a data file of a bundle.
struct TensorBundlePart {
  int shard = 0;  ///< The number of the data file.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t masked_crc32c = 0;
  /// What it covers of the tensor's dimension `TensorBundleEntry::axis`. A whole tensor: all of it.
  std::int64_t start = 0;
  std::int64_t length = 0;
};

/// A tensor that the index of a bundle lists.
struct TensorBundleEntry {
  std::string name;
  std::string dtype_name;            ///< As TensorFlow spells it: "float32", "string".
  std::optional<TensorDtype> dtype;  ///< Nothing: it is listed, but cannot be read.
  std::vector<std::int64_t> shape;
  /// The dimension that the parts divide; 0 for a whole tensor.
  std::int64_t axis = 0;
  /// In their order along the axis, without holes or overlaps. One part: the whole tensor.
  std::vector<TensorBundlePart> parts;
};

/// The content of `PREFIX.index` of a checkpoint that TensorFlow saved (V2, a "tensor bundle").
struct TensorBundleIndex {
  int num_shards = 0;
  std::vector<TensorBundleEntry> tensors;  ///< Sorted by the bytes of their names.
};

/// Reads an index, whose complete content is `table`, and validates it: the sum of the parts of a
/// partitioned variable is the variable, and shapes agree with the numbers of bytes. What it says
/// about data files is checked by `check_tensor_bundle_shards`.
///
/// Throws kDataLoss, naming `file` and the tensor or offset, for anything else; kUnimplemented for
/// big-endian data, compressed tables, newer versions, TensorFlow's V1 checkpoints, and variables
/// that are partitioned along several dimensions. A malicious file cannot do more than that. Names
/// take at most 16 times the size of the table, everything else a few times its size and at most
/// about 300 MB (a million entries). Thread-safety: a pure function.
TensorBundleIndex parse_tensor_bundle_index(std::string_view table, std::string_view file);

/// The name of a data file: "PREFIX.data-00000-of-00002".
std::string tensor_bundle_shard_name(std::string_view prefix, int shard, int num_shards);

/// Checks that every part is within its data file, and that no byte belongs to two tensors, so that
/// all tensors together take no more memory than the files. `bytes_of(shard)` returns the size of a
/// data file; it is called once for each file that the index refers to. Throws kDataLoss, naming
/// the file, the tensor and the offset.
void check_tensor_bundle_shards(const TensorBundleIndex& index, std::string_view prefix,
                                const std::function<std::uint64_t(int shard)>& bytes_of);

}  // namespace brigade::io
