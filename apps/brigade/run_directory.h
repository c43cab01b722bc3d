#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::command {

/// Whether a run that a directory holds may be replaced.
enum class Overwrite { kNo, kYes };

/// The folder of one training run: `run.json`, its configuration and result, and
/// `weights.safetensors`, the weights at its end.
///
/// Thread-safety: one thread at a time.
class RunDirectory {
 public:
  RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path);

  const io::Path& path() const { return path_; }
  io::Path weights_path() const;

  /// Throws if `claim` would: kAlreadyExists if the folder holds a run and may not be replaced,
  /// kPermissionDenied or kInvalidArgument if it cannot be written. Changes nothing.
  void check(Overwrite overwrite) const;

  /// Makes the folder, writes `run_json` into it, and removes the weights of an earlier run. Throws
  /// as `io::FileSystem` does.
  void claim(std::string_view run_json);

  /// Replaces `run.json`.
  void write_run(std::string_view run_json);

  /// Replaces the weights.
  void save_weights(std::span<const checkpoint::NamedTensor> weights);

  /// Reads the weights. Throws kNotFound, naming the path and the command that writes it, if there
  /// are none.
  checkpoint::SafetensorsFile read_weights() const;

 private:
  io::Path run_path() const;

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

}  // namespace brigade::command
