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
#include "brigade/io/lock_file.h"

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
/// `weights.safetensors`, the weights where it ended or was stopped; `run.lock` while a training
/// goes on.
///
/// Of what a run has left only what Brigade writes is ever removed, and no symbolic link is
/// followed for it. Where something else lies in the place of one of these files and folders, the
/// directory is refused.
///
/// Thread-safety: one thread at a time.
class RunDirectory {
 public:
  RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path);

  const io::Path& path() const { return path_; }
  io::Path weights_path() const;

  /// Throws kPermissionDenied or kInvalidArgument if the folder cannot be written or something lies
  /// in the way that no run has made, kAlreadyExists if it holds a run and `held` is kRefuse, or
  /// something of a run without its run.json. Changes nothing.
  void check(HeldRun held) const;

  /// Makes the folder, and keeps other trainings out of it as long as this lives. Throws
  /// kFailedPrecondition that names the process that has it.
  void lock();

  /// The configuration of the run that it holds; null if there is none. Throws kDataLoss if its
  /// run.json is broken.
  Json configuration() const;
  /// Whether the run that it holds has ended, finished or interrupted.
  bool has_result() const;

  /// The result of the run that it holds, if that is one of `configuration` and has just this
  /// length; else null, and there is something to train. Throws kInvalidArgument if it is longer,
  /// kDataLoss if its weights are not those of the result, and as `open`.
  Json finished(const Json& configuration, const std::optional<Length>& length) const;

  /// Makes the folder, which is locked, ready for the training of `configuration` (an object of
  /// JSON), whose run.json without a result is `run_json`: empty, or with the checkpoints that it
  /// goes on from. Throws kInvalidArgument, naming what differs, if the run that is gone on with,
  /// or its newest checkpoint, is of another configuration; where it ran may differ. Throws
  /// kDataLoss if it has made steps, and none of its checkpoints is whole.
  void open(HeldRun held, const Json& configuration, std::string_view run_json);

  // Once it is locked, these three throw kFailedPrecondition, and write nothing, if the folder was
  // removed, renamed, replaced or unmounted.

  /// Replaces `run.json`.
  void write_run(std::string_view run_json);
  /// Notes in the `run.json` of `open` that the checkpoint of `step` is on the disk.
  void note_saved(std::int64_t step);

  /// Replaces the weights by those of `step`.
  void save_weights(std::span<const checkpoint::NamedTensor> weights, std::int64_t step);

  /// Reads the weights. Throws kNotFound, naming the path and the command that writes it, if there
  /// are none; kDataLoss, naming both hashes, unless `mismatch` allows it, if they are not those
  /// that the run's result or the file itself records.
  checkpoint::SafetensorsFile read_weights(
      checkpoint::HashMismatch mismatch = checkpoint::HashMismatch::kRefuse) const;

 private:
  io::Path run_path() const;
  io::Path lock_path() const;
  void check_places() const;
  void check_is_in_place() const;
  void check_weights(const Json& result) const;
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
  std::unique_ptr<io::LockFile> lock_;
  std::unique_ptr<io::HeldFolder> place_;  // since it is locked
  std::string run_json_;                   // as `open` was given it
};

}  // namespace brigade::command
