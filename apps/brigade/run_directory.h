#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "apps/brigade/report.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/io/file_system.h"
#include "brigade/io/lock_file.h"

namespace brigade::command {

/// What to do with a run that is already in a directory.
enum class ExistingRun {
  kResume,  ///< resume it if it is the same training
  kRefuse,  ///< an error
  kReplace  ///< remove it
};

/// How long a training is: the total of "steps" or "examples".
struct Length {
  std::string unit;
  std::int64_t count = 0;
};

/// The subfolders of a model directory.
io::Path checkpoints_in(const io::Path& model_dir);
io::Path evaluations_in(const io::Path& model_dir);
io::Path profile_in(const io::Path& model_dir);

/// Resolves a path that a user gives: a model directory stands for the checkpoints in it, a
/// manifest for its checkpoint's folder.
io::Path resolve_checkpoint_path(const io::FileSystem& files, const io::Path& path);

/// The folder of the checkpoint at `path`, or of the newest complete one if a directory of
/// checkpoints or a model directory is there. Reads every byte. Throws kNotFound if there is none,
/// kInvalidArgument for a file, kDataLoss if that checkpoint is corrupt.
io::Path complete_checkpoint(const std::shared_ptr<io::FileSystem>& files, const io::Path& path);

/// The folder of one training run: `run.json`, its configuration and result, `checkpoints/`,
/// event files (those of evaluations in `eval/`) and `profile/` during the training, and
/// `weights.safetensors`, the weights where it ended or was stopped; `run.lock` during a training.
///
/// Only files that Brigade writes are ever removed, and no symbolic link is followed. If one of
/// these files and folders is of another kind (a link, a folder instead of a file), the directory
/// is refused.
///
/// Thread-safety: one thread at a time.
class RunDirectory {
 public:
  RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path)
      : files_(std::move(files)), path_(std::move(path)) {}

  const io::Path& path() const { return path_; }
  io::Path weights_path() const { return path_ / "weights.safetensors"; }

  /// Throws kPermissionDenied or kInvalidArgument if the folder cannot be written or contains an
  /// entry of the wrong kind; kAlreadyExists if it holds a run and `existing` is kRefuse, or parts
  /// of a run without its run.json. Changes nothing.
  void check(ExistingRun existing) const;

  /// Creates the folder, and keeps other trainings out of it as long as this lives. Throws
  /// kFailedPrecondition, naming the process that uses it.
  void lock();

  /// The configuration of the run that it holds; null if there is none. Throws kDataLoss if its
  /// run.json is broken.
  Json configuration() const;
  /// Whether the run that it holds has ended, finished or interrupted.
  bool has_result() const;

  /// The result of the run that it holds, if that has this configuration and exactly this length;
  /// else null: there is something to train. Throws kInvalidArgument if the run is longer,
  /// kDataLoss if its weights do not match the result, and as `open`.
  Json finished(const Json& configuration, const std::optional<Length>& length) const;

  /// Prepares the locked folder for the training of `configuration` (a JSON object), whose
  /// run.json without a result is `run_json`. Afterwards the folder is empty or has the checkpoints
  /// to resume from. Throws kInvalidArgument, naming what differs, if the run to resume or its
  /// newest checkpoint has another configuration; devices and strategy may differ. Throws kDataLoss
  /// if the run has made steps and none of its checkpoints is complete.
  void open(ExistingRun existing, const Json& configuration, std::string_view run_json);

  // After `lock`, these three throw kFailedPrecondition and write nothing if the folder was
  // removed, renamed, replaced or unmounted.

  /// Replaces `run.json`.
  void write_run(std::string_view run_json);
  /// Records in the `run.json` of `open` that the checkpoint of `step` is on the disk.
  void record_saved_step(std::int64_t step);

  /// Replaces the weights with those of `step`.
  void save_weights(std::span<const checkpoint::NamedTensor> weights, std::int64_t step);

  /// Reads the weights. Throws kNotFound, naming the path and the command that writes it, if there
  /// are none. Throws kDataLoss, naming both hashes, if they do not match the hash in the run's
  /// result or in the file, unless `mismatch` allows that.
  checkpoint::SafetensorsFile read_weights(
      checkpoint::HashMismatch mismatch = checkpoint::HashMismatch::kRefuse) const;

 private:
  io::Path run_path() const { return path_ / "run.json"; }
  io::Path lock_path() const { return path_ / "run.lock"; }
  void check_entry_kinds() const;
  void check_not_replaced() const;
  void check_weights(const Json& result) const;
  /// The run.json of the directory; null if there is none.
  Json stored_run() const;
  struct RecordedHash {
    std::string hash;  ///< empty: none is recorded
    std::string where;
  };
  RecordedHash recorded_hash(const checkpoint::SafetensorsFile& weights) const;
  void remove_run();

  std::shared_ptr<io::FileSystem> files_;
  io::Path path_;
  std::unique_ptr<io::LockFile> lock_;
  std::unique_ptr<io::HeldFolder> held_folder_;  // since it is locked
  std::string run_json_;                         // as `open` was given it
};

}  // namespace brigade::command
