#include "brigade/io/file_system.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

bool is_folder(const std::optional<FileInfo>& info) {
  return info && info->kind == FileKind::kDirectory;
}

class NamedFolder final : public HeldFolder {
 public:
  NamedFolder(const FileSystem& files, Path path) : files_(files), path_(std::move(path)) {}
  bool is_unchanged() const override { return is_folder(files_.info(path_)); }

 private:
  const FileSystem& files_;
  Path path_;
};

}  // namespace

void FileSystem::create_directory(const Path& directory) {
  if (entry(directory)) {
    throw Error(ErrorCode::kAlreadyExists,
                base::str_cat("cannot create folder ", directory, ": it exists already"));
  }
  if (directory.has_parent_path() && !is_folder(info(directory.parent_path()))) {
    throw Error(ErrorCode::kNotFound, base::str_cat("cannot create folder ", directory,
                                                    ": its parent folder does not exist"));
  }
  create_directories(directory);
}

FolderSweep FileSystem::remove_files(const Path& directory, const IsOwnName& is_own) {
  if (!is_folder(entry(directory))) return {.is_folder = false, .left = {}};
  FolderSweep sweep;
  for (const std::string& name : list(directory)) {
    const auto found = entry(directory / name);
    if (is_own(name) && found && found->kind == FileKind::kFile) {
      remove(directory / name);
    } else if (found) {
      sweep.left.push_back(name);
    }
  }
  return sweep;
}

std::unique_ptr<HeldFolder> FileSystem::hold(const Path& directory) const {
  if (is_folder(info(directory))) return std::make_unique<NamedFolder>(*this, directory);
  throw Error(ErrorCode::kNotFound, base::str_cat("there is no folder ", directory));
}

}  // namespace brigade::io
