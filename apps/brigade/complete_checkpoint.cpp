#include "apps/brigade/complete_checkpoint.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"

namespace brigade::command {

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
