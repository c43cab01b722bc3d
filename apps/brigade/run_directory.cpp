#include "apps/brigade/run_directory.h"

#include <unistd.h>

#include <cerrno>
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

}  // namespace

RunDirectory::RunDirectory(std::shared_ptr<io::FileSystem> files, io::Path path)
    : files_(std::move(files)), path_(std::move(path)) {}

io::Path RunDirectory::weights_path() const {
  return path_ / "weights.safetensors";
}

io::Path RunDirectory::run_path() const {
  return path_ / "run.json";
}

void RunDirectory::check(Overwrite overwrite) const {
  check_writable(*files_, path_);
  if (overwrite == Overwrite::kYes) return;
  for (const io::Path& file : {run_path(), weights_path()}) {
    if (!files_->exists(file)) continue;
    throw Error(ErrorCode::kAlreadyExists,
                base::str_cat("the model directory ", path_, " holds a run (", file.filename(),
                              "); choose another --model-dir, or replace it with --overwrite"));
  }
}

void RunDirectory::claim(std::string_view run_json) {
  files_->create_directories(path_);
  write_run(run_json);
  files_->remove(weights_path());
}

void RunDirectory::write_run(std::string_view run_json) {
  io::atomic_write(*files_, run_path(), run_json);
}

void RunDirectory::save_weights(std::span<const checkpoint::NamedTensor> weights) {
  checkpoint::save_safetensors(*files_, weights_path(), weights, {{"writer", "brigade"}});
}

checkpoint::SafetensorsFile RunDirectory::read_weights() const {
  if (!files_->exists(weights_path())) {
    throw Error(ErrorCode::kNotFound,
                base::str_cat("there are no weights at ", weights_path(),
                              "; train them with: brigade train --model-dir ", path_));
  }
  return checkpoint::read_safetensors(*files_, weights_path());
}

}  // namespace brigade::command
