#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "apps/brigade/report.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/file_system.h"

namespace brigade::command {

/// What is done with a run that a directory holds.
enum class HeldRun {
  kGoOn,          ///< one that did not finish is gone on with, if it is the same training
  kGoOnFinished,  ///< a finished one too
  kReplace        ///< it is removed
};

/// The folder of one training run: `run.json`, its configuration and result, `checkpoints/` and
/// event files while it goes on, and `weights.safetensors`, the weights at its end.
///
/// Thread-safety: one thread at a time.
class RunDirectory {
 public:
  RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path);

  const io::Path& path() const { return path_; }
  io::Path weights_path() const;

  /// Throws kPermissionDenied or kInvalidArgument if the folder cannot be written, kAlreadyExists
  /// if it holds a run that `held` says nothing of: a finished one, or weights alone. Changes
  /// nothing.
  void check(HeldRun held) const;

  /// Makes the folder ready for the training of `configuration` (an object of JSON), whose run.json
  /// without a result is `run_json`: empty, or with the checkpoints that it goes on from. Throws
  /// kInvalidArgument, naming what differs, if the run that is gone on with is of another
  /// configuration; where it ran may differ.
  void open(HeldRun held, const Json& configuration, std::string_view run_json);

  /// Replaces `run.json`.
  void write_run(std::string_view run_json);

  /// Replaces the weights.
  void save_weights(std::span<const checkpoint::NamedTensor> weights);

  /// Reads the weights. Throws kNotFound, naming the path and the command that writes it, if there
  /// are none.
  checkpoint::SafetensorsFile read_weights() const;

 private:
  io::Path run_path() const;
  /// The run.json that lies there; null if there is none.
  Json held_run() const;
  void remove_run();

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

}  // namespace brigade::command
