#include "apps/brigade/whole_checkpoint.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"

namespace brigade::command {

io::Path meant_by(const io::FileSystem& files, const io::Path& path) {
  if (path.filename() == checkpoint::kManifestName && path.has_parent_path()) {
    return path.parent_path();
  }
  const io::Path inside = path / "checkpoints";
  return files.exists(inside) ? inside : path;
}

io::Path whole_checkpoint(const std::shared_ptr<io::FileSystem>& files, const io::Path& path) {
  const io::Path place = meant_by(*files, path);
  const auto info = files->info(place);
  if (!info) {
    throw Error(ErrorCode::kNotFound,
                base::str_cat("there is no checkpoint at ", path,
                              "; give auto, never, or the path of a checkpoint or of a model "
                              "directory"));
  }
  if (info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat(path,
                              " is a file; a training goes on from the folder of a checkpoint or "
                              "from a model directory (weights alone have no optimizer and no "
                              "place in the data)"));
  }
  if (files->exists(place / checkpoint::kManifestName)) {
    checkpoint::Checkpoint::open(files, place).verify();
    return place;
  }
  const checkpoint::LatestWhole found = checkpoint::find_latest_whole(files, place);
  if (found.checkpoint) return found.checkpoint->path();
  const std::string broken =
      found.broken.empty() ? "" : base::str_cat(" (", found.broken.front().reason, ")");
  throw Error(ErrorCode::kNotFound,
              base::str_cat("there is no whole checkpoint at ", path, broken));
}

}  // namespace brigade::command
