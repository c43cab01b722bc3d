#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/brigade/report.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"

namespace brigade::command {

/// What is done with a run that a directory holds.
enum class HeldRun {
  kGoOn,    ///< it is gone on with, if it is the same training
  kRefuse,  ///< it is an error
  kReplace  ///< it is removed
};

/// How long a training is: so many "steps" or "examples" in all.
struct Length {
  std::string unit;
  std::int64_t count = 0;
};

/// Where things lie in a model directory.
io::Path checkpoints_in(const io::Path& model_dir);
io::Path evaluations_in(const io::Path& model_dir);
io::Path profile_in(const io::Path& model_dir);

/// The folder of one training run: `run.json`, its configuration and result, `checkpoints/`,
/// event files (those of evaluations in `eval/`) and `profile/` while it goes on, and
/// `weights.safetensors`, the weights where it ended or was stopped.
///
/// Thread-safety: one thread at a time.
class RunDirectory {
 public:
  RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path);

  const io::Path& path() const { return path_; }
  io::Path weights_path() const;

  /// Throws kPermissionDenied or kInvalidArgument if the folder cannot be written, kAlreadyExists
  /// if it holds a run and `held` is kRefuse, or something of a run without its run.json. Changes
  /// nothing.
  void check(HeldRun held) const;

  /// The configuration of the run that it holds; null if there is none. Throws kDataLoss if its
  /// run.json is broken.
  Json configuration() const;
  /// Whether the run that it holds has ended, finished or interrupted.
  bool has_result() const;

  /// The result of the run that it holds, if that is one of `configuration` and has just this
  /// length; else null, and there is something to train. Throws kInvalidArgument if it is longer,
  /// and as `open`.
  Json finished(const Json& configuration, const std::optional<Length>& length) const;

  /// Makes the folder ready for the training of `configuration` (an object of JSON), whose run.json
  /// without a result is `run_json`: empty, or with the checkpoints that it goes on from. Throws
  /// kInvalidArgument, naming what differs, if the run that is gone on with is of another
  /// configuration; where it ran may differ.
  void open(HeldRun held, const Json& configuration, std::string_view run_json);

  /// Replaces `run.json`.
  void write_run(std::string_view run_json);

  /// Replaces the weights by those of `step`.
  void save_weights(std::span<const checkpoint::NamedTensor> weights, std::int64_t step);

  /// Reads the weights. Throws kNotFound, naming the path and the command that writes it, if there
  /// are none; kDataLoss, naming both hashes, unless `mismatch` allows it, if they are not those
  /// that the run's result or the file itself records.
  checkpoint::SafetensorsFile read_weights(
      checkpoint::HashMismatch mismatch = checkpoint::HashMismatch::kRefuse) const;

 private:
  io::Path run_path() const;
  /// The run.json that lies there; null if there is none.
  Json held_run() const;
  struct RecordedHash {
    std::string hash;  ///< empty: none is recorded
    std::string where;
  };
  RecordedHash recorded_hash(const checkpoint::SafetensorsFile& weights) const;
  void remove_run();

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
};

}  // namespace brigade::command
