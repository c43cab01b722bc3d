#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"
#include "brigade/io/tensor_bundle.h"

namespace brigade::checkpoint {

/// A limit for indexes. Those of large models have some megabytes.
inline constexpr std::uint64_t kMostTfIndexBytes = std::uint64_t{256} << 20;

/// The prefix of the TensorFlow checkpoint that `path` means: `model.ckpt` for
/// `model.ckpt.index`, and for `model.ckpt` if there is no such file, but a `model.ckpt.index`.
/// Nothing for other paths. Throws kInvalidArgument for one of its data files.
std::optional<io::Path> tf_bundle_prefix(const io::FileSystem& files, const io::Path& path);

/// A checkpoint that TensorFlow saved: `PREFIX.index` and `PREFIX.data-00000-of-0000N`, of
/// `tf.compat.v1.train.Saver` (V2), `tf.train.Checkpoint`, Keras's `save_weights` in this format,
/// or the `variables/variables` of a SavedModel. All parts of a partitioned variable are one
/// tensor. Names, shapes and layouts are those in the file; `restore_variables` converts layouts
/// (`RestoreOptions::layout`). TensorFlow: tf.train.load_checkpoint, list_variables,
/// load_variable.
///
/// Thread-safety: all functions from any thread.
class TfBundle {
 public:
  /// A tensor of the checkpoint.
  struct Listed {
    std::string name;   ///< "conv/weights", "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    std::string dtype;  ///< As TensorFlow spells it: "float32", "string".
    std::vector<std::int64_t> shape;
    /// Whether `read` reads it: it is of a dtype that safetensors and libtorch have.
    bool is_readable = false;
  };

  /// Reads the index and compares it with the sizes of the data files. Throws kNotFound, naming
  /// the file, if one is missing; kDataLoss, naming the file and the offset or tensor, for a
  /// corrupt or incomplete checkpoint; kUnimplemented for big-endian data, compressed indexes,
  /// TensorFlow's V1 format, and variables that are partitioned along several dimensions. A
  /// malicious checkpoint cannot do more than that, nor take more memory than
  /// `io::parse_tensor_bundle_index` says; the tensors take no more than the data files.
  static TfBundle open(std::shared_ptr<const io::FileSystem> files, const io::Path& prefix);

  const io::Path& prefix() const { return prefix_; }
  /// Of the index and the data files that it refers to.
  std::uint64_t bytes() const { return bytes_; }
  /// All tensors, sorted by the bytes of their names.
  std::vector<Listed> list() const;

  /// One tensor, on the CPU, after its checksums are verified. Throws kNotFound, which suggests
  /// the nearest name, if there is none; kUnimplemented for a string or another dtype that is not
  /// read; kDataLoss, naming the data file and the offset, if its bytes are corrupt.
  at::Tensor read(std::string_view name) const;
  /// All tensors that `read` reads, in the order of `list`. Throws as `read`.
  std::vector<NamedTensor> tensors() const;

 private:
  TfBundle(std::shared_ptr<const io::FileSystem> files, io::Path prefix)
      : files_(std::move(files)), prefix_(std::move(prefix)) {}
  std::uint64_t shard_bytes(int shard) const;
  io::Path shard_path(int shard) const;
  at::Tensor read(const io::TensorBundleEntry& entry) const;
  void read_part(const io::TensorBundlePart& part, const io::TensorBundleEntry& entry,
                 const at::Tensor& to) const;

  std::shared_ptr<const io::FileSystem> files_;
  io::Path prefix_;
  io::TensorBundleIndex index_;
  std::uint64_t bytes_ = 0;
};

}  // namespace brigade::checkpoint
