#include "apps/brigade/run_directory.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/atomic_write.h"

namespace brigade::command {
namespace {

// The folder itself, or the nearest one above it that exists: there the first write happens.
io::Path nearest_existing(const io::FileSystem& files, io::Path path) {
  while (path.has_parent_path() && path != path.parent_path() && !files.exists(path)) {
    path = path.parent_path();
  }
  return files.exists(path) ? path : io::Path(".");
}

void check_writable(const io::FileSystem& files, const io::Path& directory) {
  const io::Path place = nearest_existing(files, directory);
  const auto info = files.info(place);
  if (info && info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("cannot write to the model directory ", directory, ": ", place,
                              " is not a folder; choose another --model-dir"));
  }
  if (::access(place.c_str(), W_OK | X_OK) != 0) {
    throw Error(ErrorCode::kPermissionDenied,
                base::str_cat("cannot write to the model directory ", directory, ": ", place, ": ",
                              std::generic_category().message(errno),
                              "; change its permissions or choose another --model-dir"));
  }
}

/// Everything that the trained weights depend on, beyond the last bits, must be as it was.
void check_same(const io::Path& directory, const Json& was, const Json& is) {
  static const std::set<std::string> kMayDiffer = {
      "strategy",   "devices",  "replicas",           "workers",
      "controller", "data_dir", "threads_per_replica"};
  for (const auto& [key, value] : is.items()) {
    if (kMayDiffer.contains(key) || !was.contains(key) || was[key] == value) continue;
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("the model directory ", directory, " holds another training: ", key,
                              " was ", was[key].dump(), " and is ", value.dump(),
                              "; give the same flags, choose another --model-dir, or replace it "
                              "with --overwrite"));
  }
}

void remove_all(io::FileSystem& files, const io::Path& path) {
  const auto info = files.info(path);
  if (!info) return;
  if (info->kind == io::FileKind::kDirectory) {
    for (const std::string& name : files.list(path)) remove_all(files, path / name);
  }
  files.remove(path);
}

void remove_beginning_with(io::FileSystem& files, const io::Path& folder, std::string_view prefix) {
  if (!files.exists(folder)) return;
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with(prefix)) files.remove(folder / name);
  }
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

RunDirectory::RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path)
    : files_(std::move(files)), path_(std::move(path)) {}

io::Path RunDirectory::weights_path() const {
  return path_ / "weights.safetensors";
}

io::Path RunDirectory::run_path() const {
  return path_ / "run.json";
}

Json RunDirectory::held_run() const {
  if (!files_->exists(run_path())) return nullptr;
  Json run = Json::parse(files_->read(run_path()), nullptr, /*allow_exceptions=*/false);
  if (run.is_object() && run.contains("configuration") && run.contains("result")) return run;
  throw Error(ErrorCode::kDataLoss,
              base::str_cat(run_path(),
                            " is no run.json; choose another --model-dir, or train anew with "
                            "--overwrite"));
}

void RunDirectory::check(HeldRun held) const {
  check_writable(*files_, path_);
  if (held == HeldRun::kReplace) return;
  const bool has_run = !held_run().is_null();
  const bool has_parts = files_->exists(weights_path()) || files_->exists(checkpoints_in(path_));
  if (has_run ? held == HeldRun::kGoOn : !has_parts) return;
  throw Error(
      ErrorCode::kAlreadyExists,
      base::str_cat(
          "the model directory ", path_, " holds ",
          has_run ? "a run, and --resume is never" : "weights or checkpoints, but no run.json",
          "; choose another --model-dir", has_run ? ", go on with it with --resume auto," : "",
          " or replace it with --overwrite"));
}

Json RunDirectory::configuration() const {
  const Json run = held_run();
  return run.is_null() ? Json(nullptr) : run["configuration"];
}

bool RunDirectory::has_result() const {
  const Json run = held_run();
  return !run.is_null() && !run["result"].is_null();
}

Json RunDirectory::finished(const Json& configuration, const std::optional<Length>& length) const {
  const Json run = held_run();
  if (run.is_null() || !run["result"].is_object() || !length) return nullptr;
  check_same(path_, run["configuration"], configuration);
  const Json& result = run["result"];
  const std::int64_t made = result.value(length->unit, std::int64_t{0});
  if (made > length->count) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("the run in the model directory ", path_, " has ", made, " ",
                              length->unit, " behind it, and only ", length->count,
                              " are asked for; ask for more, choose another --model-dir, or "
                              "replace it with --overwrite"));
  }
  const bool is_whole = !result.value("interrupted", false) && files_->exists(weights_path());
  return is_whole && made == length->count ? result : Json(nullptr);
}

void RunDirectory::open(HeldRun held, const Json& configuration, std::string_view run_json) {
  const Json run = held == HeldRun::kReplace ? Json(nullptr) : held_run();
  if (!run.is_null()) check_same(path_, run["configuration"], configuration);
  files_->create_directories(path_);
  if (run.is_null()) remove_run();
  write_run(run_json);
}

void RunDirectory::remove_run() {
  constexpr std::string_view kEventFiles = "events.out.tfevents.";
  remove_all(*files_, checkpoints_in(path_));
  remove_beginning_with(*files_, path_, kEventFiles);
  remove_beginning_with(*files_, evaluations_in(path_), kEventFiles);
  remove_beginning_with(*files_, profile_in(path_), "timeline-");
  files_->remove(weights_path());
}

void RunDirectory::write_run(std::string_view run_json) {
  io::atomic_write(*files_, run_path(), run_json);
}

void RunDirectory::save_weights(std::span<const checkpoint::NamedTensor> weights,
                                std::int64_t step) {
  checkpoint::save_safetensors(
      *files_, weights_path(), weights,
      {{"step", std::to_string(step)},
       {std::string(checkpoint::kWeightsHashKey), checkpoint::weights_sha256(weights)},
       {"writer", "brigade"}});
}

// The result's counts: a file that was replaced as a whole may record what it holds. While there is
// no result, the weights are those of an earlier end of the run, which only the file knows.
RunDirectory::RecordedHash RunDirectory::recorded_hash(
    const checkpoint::SafetensorsFile& weights) const {
  const std::string key(checkpoint::kWeightsHashKey);
  const Json run = held_run();
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
    throw Error(ErrorCode::kNotFound,
                base::str_cat("there are no weights at ", weights_path(),
                              "; train them with: brigade train --model-dir ", path_));
  }
  checkpoint::SafetensorsFile weights = checkpoint::read_safetensors(*files_, weights_path());
  const RecordedHash recorded = recorded_hash(weights);
  if (recorded.hash.empty() || mismatch == checkpoint::HashMismatch::kAllow) return weights;
  const std::string found = checkpoint::weights_sha256(weights.tensors);
  if (found == recorded.hash) return weights;
  throw Error(
      ErrorCode::kDataLoss,
      base::str_cat(weights_path(), ": the weights are not those of the run: their sha256 is ",
                    found, ", and ", recorded.where, " records ", recorded.hash,
                    "; if they were replaced on purpose, give --allow-changed-weights"));
}

}  // namespace brigade::command
