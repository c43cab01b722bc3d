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
#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"
#include "brigade/io/state_tree.h"

namespace brigade::checkpoint {

/// A complete checkpoint on disk: its manifest is valid and its files have the recorded sizes.
/// Tensors are read on request, and the checksum of their file is verified then (TensorFlow:
/// tf.train.load_checkpoint, list_variables, load_variable).
///
/// Thread-safety: all functions from any thread.
class Checkpoint {
 public:
  /// Opens the folder of one checkpoint. Throws kNotFound if there is none, kDataLoss if it is
  /// corrupt, kUnimplemented if a newer Brigade wrote it; each names the file.
  static Checkpoint open(std::shared_ptr<const io::FileSystem> files, const io::Path& folder);

  const io::Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// The global step at which it was saved.
  std::int64_t step() const { return manifest_.step; }
  /// What was given to `Saver::save`: metrics, and free text.
  const std::map<std::string, double>& metrics() const { return manifest_.metrics; }
  const std::map<std::string, std::string>& metadata() const { return manifest_.metadata; }

  /// Sorted by bytes.
  std::vector<std::string> names(Section section = Section::kVariables) const;
  bool has(std::string_view name, Section section = Section::kVariables) const;
  /// One tensor, on the CPU. Reads the whole file that contains it: to read many, prefer `tensors`.
  /// Throws kNotFound, which suggests the nearest name, if there is none; kDataLoss if the file is
  /// corrupt.
  at::Tensor tensor(std::string_view name, Section section = Section::kVariables) const;
  /// All tensors of a section, sorted by name. Throws kDataLoss if a file is corrupt.
  std::vector<NamedTensor> tensors(Section section = Section::kVariables) const;
  /// The saved state tree. Throws as `tensors`.
  io::StateTree state() const;

  /// Reads every file. Throws kDataLoss, naming the first one that differs from what was written.
  void verify() const;

 private:
  Checkpoint(std::shared_ptr<const io::FileSystem> files, io::Path path, Manifest manifest);
  std::vector<NamedTensor> read_file(std::size_t file, Section section) const;
  std::shared_ptr<const io::FileSystem> files_;
  io::Path path_;
  Manifest manifest_;
};

/// The complete checkpoints of a directory, oldest first; checksums are not verified. Throws
/// kUnimplemented, naming the checkpoint, if one has a format that is newer than this build reads;
/// so do the next two functions.
std::vector<io::Path> checkpoint_paths(const io::FileSystem& files, const io::Path& directory);

/// The newest of them, or nothing (TensorFlow: tf.train.latest_checkpoint). The newest is the one
/// saved last, whatever its step.
std::optional<io::Path> latest_checkpoint(const io::FileSystem& files, const io::Path& directory);

/// A folder that has a checkpoint's name but is not a complete checkpoint.
struct BrokenCheckpoint {
  io::Path path;
  std::string reason;
};

/// What `find_latest_complete` found.
struct LatestComplete {
  /// Nothing if none is complete.
  std::optional<Checkpoint> checkpoint;
  std::vector<BrokenCheckpoint> broken;  ///< The corrupt checkpoints that were skipped.
};

/// The newest checkpoint whose bytes all match their checksums; corrupt checkpoints are skipped and
/// reported. Nothing if the directory is missing or holds no complete checkpoint. Training resumes
/// from here.
LatestComplete find_latest_complete(std::shared_ptr<const io::FileSystem> files,
                                    const io::Path& directory);
/// The same, with the files of this machine.
inline LatestComplete find_latest_complete(const io::Path& directory) {
  return find_latest_complete(io::posix_file_system(), directory);
}

}  // namespace brigade::checkpoint
