#include "apps/brigade/run_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/own_files.h"
#include "brigade/io/strict_json.h"
#include "brigade/train/session/training_state.h"

namespace brigade::command {
namespace {

constexpr const char* kSavedStep = "saved_step";

// The folder itself, or the nearest existing parent, where the first write would happen.
io::Path nearest_existing(const io::FileSystem& files, io::Path path) {
  while (path.has_parent_path() && path != path.parent_path() && !files.exists(path)) {
    path = path.parent_path();
  }
  return files.exists(path) ? path : io::Path(".");
}

void check_writable(const io::FileSystem& files, const io::Path& directory) {
  const io::Path existing = nearest_existing(files, directory);
  const auto info = files.info(existing);
  if (info && info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument, "cannot write to the model directory ", directory,
                ": ", existing, " is not a folder; choose another --model-dir");
  }
  if (::access(existing.c_str(), W_OK | X_OK) != 0) {
    throw Error(ErrorCode::kPermissionDenied, "cannot write to the model directory ", directory,
                ": ", existing, ": ", std::generic_category().message(errno),
                "; change its permissions or choose another --model-dir");
  }
}

/// Everything that the trained weights depend on must be the same, except for what changes only the
/// last bits.
void check_same(const io::Path& directory, const Json& was, const Json& is) {
  static const std::set<std::string> kMayDiffer = {"strategy",
                                                   "logical_replicas",
                                                   "micro_batches",
                                                   "pipeline_schedule",
                                                   "pipeline_replicas",
                                                   "devices",
                                                   "replicas",
                                                   "workers",
                                                   "controller",
                                                   "data_dir",
                                                   "threads_per_replica",
                                                   "memory_format",
                                                   "mode",
                                                   "staleness",
                                                   "staleness_aware_rate",
                                                   "backup_workers",
                                                   "variable_partitioner"};
  for (const auto& [key, value] : is.items()) {
    if (kMayDiffer.contains(key) || !was.contains(key) || was[key] == value) continue;
    throw Error(
        ErrorCode::kInvalidArgument, "the model directory ", directory,
        " holds another training: ", key, " was ", was[key].dump(), " and is ", value.dump(),
        "; give the same flags, choose another --model-dir, or replace it with --overwrite");
  }
}

void remove_beginning_with(io::FileSystem& files, const io::Path& folder, std::string_view prefix) {
  io::remove_own_files(files, folder,
                       [&](std::string_view name) { return name.starts_with(prefix); });
}

/// A temporary file that an interrupted replacement of run.json or of the weights has left.
bool is_leftover(std::string_view name) {
  const bool is_of_ours =
      name.starts_with(".run.json.") || name.starts_with(".weights.safetensors.");
  return is_of_ours && name.ends_with(".tmp");
}

/// Throws unless `path` is missing or of the expected kind.
void check_entry_kind(const io::FileSystem& files, const io::Path& path, io::FileKind expected) {
  const auto found = files.entry(path);
  if (!found || found->kind == expected) return;
  throw Error(ErrorCode::kInvalidArgument, path, " is ",
              found->kind == io::FileKind::kLink ? "a symbolic link, " : "", "not the ",
              expected == io::FileKind::kDirectory ? "folder" : "regular file",
              " that a training writes; move it away, or choose another --model-dir");
}

/// The steps that a run has made, as far as its run.json says.
std::int64_t steps_made(const Json& run) {
  const auto count = [](const Json& object, const char* key) {
    const bool is_present =
        object.is_object() && object.contains(key) && object[key].is_number_integer();
    return is_present ? object[key].get<std::int64_t>() : 0;
  };
  return run.is_null() ? 0 : std::max(count(run, kSavedStep), count(run["result"], "steps"));
}

std::string with_saved_step(const std::string& run_json, std::int64_t step) {
  Json run = Json::parse(run_json);
  run[kSavedStep] = step;
  return run.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

[[noreturn]] void refuse_without_complete(const io::Path& model_dir, std::int64_t steps_made,
                                          const std::vector<checkpoint::BrokenCheckpoint>& broken) {
  const std::string why =
      broken.empty()
          ? base::str_cat("there is no checkpoint in ", checkpoints_in(model_dir))
          : base::str_cat("none of its checkpoints is complete (", broken.back().reason, ")");
  throw Error(ErrorCode::kDataLoss, "the run in the model directory ", model_dir,
              " cannot be resumed after its ",
              steps_made > 0 ? base::str_cat(steps_made, " steps: ") : "steps: ", why,
              "; put a complete one back, start from another run's checkpoint by --resume PATH and "
              "another --model-dir, or start over with --overwrite");
}

/// Throws unless the run in `model_dir` can be resumed under `seed`. `steps_made` is the number of
/// steps in its run.json. Throws kDataLoss if none of its checkpoints is complete, though it has
/// made steps or has broken checkpoints; kInvalidArgument if the newest was saved with another
/// seed. Reads the newest.
void check_can_resume(const std::shared_ptr<io::FileSystem>& files, const io::Path& model_dir,
                      std::int64_t steps_made, std::uint64_t seed) {
  const auto found = checkpoint::find_latest_complete(files, checkpoints_in(model_dir));
  if (!found.checkpoint) {
    if (steps_made == 0 && found.broken.empty()) return;
    refuse_without_complete(model_dir, steps_made, found.broken);
  }
  const std::optional<std::uint64_t> saved = train::saved_seed(*found.checkpoint);
  if (!saved || *saved == seed) return;
  throw Error(ErrorCode::kInvalidArgument, "the checkpoint ", found.checkpoint->path(),
              " belongs to another training: it was saved with seed ", *saved, ", and the seed is ",
              seed,
              "; put the run's own checkpoints back, choose another --model-dir, or start over "
              "with --overwrite");
}

}  // namespace

io::Path checkpoints_in(const io::Path& model_dir) {
  return model_dir / "checkpoints";
}

io::Path evaluations_in(const io::Path& model_dir) {
  return model_dir / "eval";
}

io::Path profile_in(const io::Path& model_dir) {
  return model_dir / "profile";
}

io::Path resolve_checkpoint_path(const io::FileSystem& files, const io::Path& path) {
  if (path.filename() == checkpoint::kManifestName && path.has_parent_path()) {
    return path.parent_path();
  }
  const io::Path inside = path / "checkpoints";
  return files.exists(inside) ? inside : path;
}

io::Path complete_checkpoint(const std::shared_ptr<io::FileSystem>& files, const io::Path& path) {
  const io::Path folder = resolve_checkpoint_path(*files, path);
  const auto info = files->info(folder);
  if (!info) {
    throw Error(ErrorCode::kNotFound, "there is no checkpoint at ", path,
                "; give auto, never, or the path of a checkpoint or of a model directory");
  }
  if (info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument, path,
                " is a file; a training resumes from the folder of a checkpoint or from a model "
                "directory (weights alone have no optimizer state and no position in the data)");
  }
  if (files->exists(folder / checkpoint::kManifestName)) {
    checkpoint::Checkpoint::open(files, folder).verify();
    return folder;
  }
  const checkpoint::LatestComplete found = checkpoint::find_latest_complete(files, folder);
  if (found.checkpoint) return found.checkpoint->path();
  const std::string broken =
      found.broken.empty() ? "" : base::str_cat(" (", found.broken.front().reason, ")");
  throw Error(ErrorCode::kNotFound, "there is no complete checkpoint at ", path, broken);
}

Json RunDirectory::stored_run() const {
  if (!files_->exists(run_path())) return nullptr;
  const auto refuse = [this](const std::string& why) {
    throw Error(ErrorCode::kDataLoss, run_path(), " is not a valid run.json",
                why.empty() ? "" : ": ", why,
                "; choose another --model-dir, or start over with --overwrite");
  };
  const std::string text = io::read_at_most(*files_, run_path(), io::kMostBytesOfText);
  constexpr std::size_t kDeepest = 32;
  io::parse_strict_json(text, kDeepest, refuse);
  Json run = Json::parse(text);  // the same, with the keys in their order
  if (!run.is_object() || !run.contains("configuration") || !run.contains("result")) refuse("");
  return run;
}

void RunDirectory::check_entry_kinds() const {
  for (const io::Path& path : {run_path(), weights_path(), lock_path()})
    check_entry_kind(*files_, path, io::FileKind::kFile);
  const io::Path checkpoints = checkpoints_in(path_);
  for (const io::Path& path : {checkpoints, evaluations_in(path_), profile_in(path_)})
    check_entry_kind(*files_, path, io::FileKind::kDirectory);
  if (!files_->exists(checkpoints)) return;
  check_entry_kind(*files_, checkpoints / checkpoint::kLatestName, io::FileKind::kFile);
  for (const std::string& name : files_->list(checkpoints)) {
    if (checkpoint::parse_folder_name(name))
      check_entry_kind(*files_, checkpoints / name, io::FileKind::kDirectory);
  }
}

void RunDirectory::check(ExistingRun existing) const {
  check_writable(*files_, path_);
  check_entry_kinds();
  if (existing == ExistingRun::kReplace) return;
  const bool has_run = !stored_run().is_null();
  const bool has_parts = files_->exists(weights_path()) || files_->exists(checkpoints_in(path_));
  if (has_run ? existing == ExistingRun::kResume : !has_parts) return;
  throw Error(ErrorCode::kAlreadyExists, "the model directory ", path_, " holds ",
              has_run ? "a run, and --resume is never" : "weights or checkpoints, but no run.json",
              "; choose another --model-dir", has_run ? ", resume it with --resume auto," : "",
              " or replace it with --overwrite");
}

void RunDirectory::lock() {
  files_->create_directories(path_);
  lock_ = io::LockFile::acquire(lock_path());
  if (lock_ == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the model directory ", path_, " is in use by ",
                io::LockFile::holder(lock_path()),
                "; wait until it has ended, or choose another --model-dir");
  }
  held_folder_ = files_->hold(path_);
}

// A new folder at the old path would not belong to the run that was begun there.
void RunDirectory::check_not_replaced() const {
  if (held_folder_ == nullptr || held_folder_->is_unchanged()) return;
  throw Error(
      ErrorCode::kFailedPrecondition, "the model directory ", path_,
      " is no longer the one in which this training began: it was removed, renamed, replaced or "
      "unmounted. Nothing more is written; put it back and run the same command again");
}

Json RunDirectory::configuration() const {
  const Json run = stored_run();
  return run.is_null() ? Json(nullptr) : run["configuration"];
}

bool RunDirectory::has_result() const {
  const Json run = stored_run();
  return !run.is_null() && !run["result"].is_null();
}

Json RunDirectory::finished(const Json& configuration, const std::optional<Length>& length) const {
  const Json run = stored_run();
  if (run.is_null() || !run["result"].is_object() || !length) return nullptr;
  check_same(path_, run["configuration"], configuration);
  const Json& result = run["result"];
  const std::int64_t made = result.value(length->unit, std::int64_t{0});
  if (made > length->count) {
    throw Error(
        ErrorCode::kInvalidArgument, "the run in the model directory ", path_, " has made ", made,
        " ", length->unit, ", and only ", length->count,
        " are asked for; ask for more, choose another --model-dir, or replace it with --overwrite");
  }
  const bool is_complete = !result.value("interrupted", false) && files_->exists(weights_path());
  if (!is_complete || made != length->count) return nullptr;
  check_weights(result);
  return result;
}

void RunDirectory::check_weights(const Json& result) const {
  const std::string recorded = result.value("weights_sha256", std::string());
  const std::string found =
      checkpoint::weights_sha256(read_weights(checkpoint::HashMismatch::kAllow).tensors);
  if (recorded.empty() || found == recorded) return;
  throw Error(ErrorCode::kDataLoss, "the run in the model directory ", path_,
              " is finished, but its weights do not match run.json: the sha256 of ", weights_path(),
              " is ", found, " and was ", recorded,
              "; put the file back, remove it to have it written again from the last checkpoint, "
              "or start over with --overwrite");
}

void RunDirectory::open(ExistingRun existing, const Json& configuration,
                        std::string_view run_json) {
  const Json run = existing == ExistingRun::kReplace ? Json(nullptr) : stored_run();
  const std::int64_t made = steps_made(run);
  if (!run.is_null()) {
    check_same(path_, run["configuration"], configuration);
    check_can_resume(files_, path_, made, configuration["seed"].get<std::uint64_t>());
  }
  if (existing == ExistingRun::kReplace) remove_run();
  io::remove_own_files(*files_, path_ / ".",
                       is_leftover);  // "/.": path_ may be a link, which is followed
  run_json_ = run_json;
  write_run(made > 0 ? with_saved_step(run_json_, made) : run_json_);
}

void RunDirectory::record_saved_step(std::int64_t step) {
  write_run(with_saved_step(run_json_, step));
}

void RunDirectory::remove_run() {
  constexpr std::string_view kEventFiles = "events.out.tfevents.";
  checkpoint::clear_directory(*files_, checkpoints_in(path_));
  // Without a run, these files belong to another program.
  if (files_->exists(run_path())) {
    remove_beginning_with(*files_, path_ / ".", kEventFiles);
    remove_beginning_with(*files_, evaluations_in(path_), kEventFiles);
    remove_beginning_with(*files_, profile_in(path_), "timeline-");
  }
  io::remove_own_file(*files_, weights_path());
}

void RunDirectory::write_run(std::string_view run_json) {
  check_not_replaced();
  io::atomic_write(*files_, run_path(), run_json);
}

void RunDirectory::save_weights(std::span<const checkpoint::NamedTensor> weights,
                                std::int64_t step) {
  check_not_replaced();
  checkpoint::save_safetensors(
      *files_, weights_path(), weights,
      {{"step", std::to_string(step)},
       {std::string(checkpoint::kWeightsHashKey), checkpoint::weights_sha256(weights)},
       {"writer", "brigade"}});
}

// The result's hash has priority: a file that was replaced as a whole may record its own hash. If
// there is no result yet, only the file has the hash of the weights.
RunDirectory::RecordedHash RunDirectory::recorded_hash(
    const checkpoint::SafetensorsFile& weights) const {
  const std::string key(checkpoint::kWeightsHashKey);
  const Json run = stored_run();
  if (!run.is_null() && run["result"].is_object()) {
    const auto found = run["result"].find(key);
    if (found != run["result"].end() && found->is_string())
      return {.hash = found->get<std::string>(), .where = "run.json"};
  }
  const auto found = weights.metadata.find(key);
  if (found == weights.metadata.end()) return {};
  return {.hash = found->second, .where = "the file's metadata"};
}

checkpoint::SafetensorsFile RunDirectory::read_weights(checkpoint::HashMismatch mismatch) const {
  if (!files_->exists(weights_path())) {
    throw Error(ErrorCode::kNotFound, "there are no weights at ", weights_path(),
                "; train them with: brigade train --model-dir ", path_);
  }
  checkpoint::SafetensorsFile weights = checkpoint::read_safetensors(*files_, weights_path());
  const RecordedHash recorded = recorded_hash(weights);
  if (recorded.hash.empty() || mismatch == checkpoint::HashMismatch::kAllow) return weights;
  const std::string found = checkpoint::weights_sha256(weights.tensors);
  if (found == recorded.hash) return weights;
  throw Error(ErrorCode::kDataLoss, weights_path(),
              ": the weights do not match the run: their sha256 is ", found, ", and ",
              recorded.where, " records ", recorded.hash,
              "; if they were replaced on purpose, give --allow-changed-weights");
}

}  // namespace brigade::command
