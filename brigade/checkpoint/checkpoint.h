#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/manifest.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"
#include "brigade/io/state_tree.h"

namespace brigade::checkpoint {

/// A checkpoint on the disk that is whole: its manifest is sound and its files have their sizes.
/// Tensors are read when they are asked for, and their file's checksum is compared on the way
/// (TensorFlow: tf.train.load_checkpoint, list_variables, load_variable).
///
/// Thread-safety: all functions from any thread.
class Checkpoint {
 public:
  /// Opens the folder of one checkpoint. Throws kNotFound if there is none, kDataLoss if it is
  /// broken, kUnimplemented if it was written by a newer Brigade; each names the file.
  static Checkpoint open(std::shared_ptr<const io::FileSystem> files, const io::Path& folder);

  const io::Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  std::int64_t step() const { return manifest_.step; }
  const std::map<std::string, double>& metrics() const { return manifest_.metrics; }
  const std::map<std::string, std::string>& metadata() const { return manifest_.metadata; }

  /// In byte order.
  std::vector<std::string> names(Section section = Section::kVariables) const;
  bool has(std::string_view name, Section section = Section::kVariables) const;
  /// One tensor, on the CPU. Reads the whole file that it lies in: for many, prefer `tensors`.
  /// Throws kNotFound, naming the nearest, if there is none; kDataLoss if the file is broken.
  at::Tensor tensor(std::string_view name, Section section = Section::kVariables) const;
  /// All tensors of a section, in name order. Throws kDataLoss if a file is broken.
  std::vector<NamedTensor> tensors(Section section = Section::kVariables) const;
  /// The state tree, as it was saved. Throws as `tensors`.
  io::StateTree state() const;

  /// Reads every file and throws kDataLoss, naming the first that is not as it was written.
  void verify() const;

 private:
  Checkpoint(std::shared_ptr<const io::FileSystem> files, io::Path path, Manifest manifest);
  std::vector<NamedTensor> read_file(std::size_t file, Section section) const;
  std::shared_ptr<const io::FileSystem> files_;
  io::Path path_;
  Manifest manifest_;
};

/// The whole checkpoints of a directory, oldest first; sums are not compared. Throws
/// kUnimplemented, naming it, if one has a format that is newer than this build reads; so do the
/// next two.
std::vector<io::Path> checkpoint_paths(const io::FileSystem& files, const io::Path& directory);

/// The newest of them, or nothing (TensorFlow: tf.train.latest_checkpoint). Newest is what was
/// saved last, whatever its step.
std::optional<io::Path> latest_checkpoint(const io::FileSystem& files, const io::Path& directory);

/// A folder that is named like a checkpoint and is none.
struct BrokenCheckpoint {
  io::Path path;
  std::string reason;
};

struct LatestWhole {
  std::optional<Checkpoint> checkpoint;
  std::vector<BrokenCheckpoint> broken;  ///< What was passed over.
};

/// The newest checkpoint of which every byte is as it was written; what is broken is passed over
/// and reported. Nothing, if the directory is missing or holds no whole one. This is where a
/// training goes on from.
LatestWhole find_latest_whole(std::shared_ptr<const io::FileSystem> files,
                              const io::Path& directory);

}  // namespace brigade::checkpoint
