#include "apps/brigade/existing_checkpoints.h"

#include "apps/brigade/run_directory.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/train/session/training_state.h"

namespace brigade::command {
namespace {

[[noreturn]] void refuse_without_complete(const io::Path& model_dir, std::int64_t steps_made,
                                          const std::vector<checkpoint::BrokenCheckpoint>& broken) {
  const std::string why =
      broken.empty()
          ? base::str_cat("there is no checkpoint in ", checkpoints_in(model_dir))
          : base::str_cat("none of its checkpoints is complete (", broken.back().reason, ")");
  throw Error(
      ErrorCode::kDataLoss,
      base::str_cat("the run in the model directory ", model_dir, " cannot be resumed after its ",
                    steps_made > 0 ? base::str_cat(steps_made, " steps: ") : "steps: ", why,
                    "; put a complete one back, start from another run's checkpoint by "
                    "--resume PATH and another --model-dir, or start over with "
                    "--overwrite"));
}

}  // namespace

void check_can_resume(const std::shared_ptr<io::FileSystem>& files, const io::Path& model_dir,
                      std::int64_t steps_made, std::uint64_t seed) {
  const auto found = checkpoint::find_latest_complete(files, checkpoints_in(model_dir));
  if (!found.checkpoint) {
    if (steps_made == 0 && found.broken.empty()) return;
    refuse_without_complete(model_dir, steps_made, found.broken);
  }
  const std::optional<std::uint64_t> saved = train::saved_seed(*found.checkpoint);
  if (!saved || *saved == seed) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("the checkpoint ", found.checkpoint->path(),
                            " belongs to another training: it was saved with seed ", *saved,
                            ", and the seed is ", seed,
                            "; put the run's own checkpoints back, choose another --model-dir, or "
                            "start over with --overwrite"));
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
    throw Error(ErrorCode::kNotFound,
                base::str_cat("there is no checkpoint at ", path,
                              "; give auto, never, or the path of a checkpoint or of a model "
                              "directory"));
  }
  if (info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(path,
                              " is a file; a training resumes from the folder of a checkpoint or "
                              "from a model directory (weights alone have no optimizer state and "
                              "no position in the data)"));
  }
  if (files->exists(folder / checkpoint::kManifestName)) {
    checkpoint::Checkpoint::open(files, folder).verify();
    return folder;
  }
  const checkpoint::LatestComplete found = checkpoint::find_latest_complete(files, folder);
  if (found.checkpoint) return found.checkpoint->path();
  const std::string broken =
      found.broken.empty() ? "" : base::str_cat(" (", found.broken.front().reason, ")");
  throw Error(ErrorCode::kNotFound,
              base::str_cat("there is no complete checkpoint at ", path, broken));
}

}  // namespace brigade::command
