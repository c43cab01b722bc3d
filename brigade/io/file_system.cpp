#include "brigade/io/file_system.h"

#include <algorithm>

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

[[noreturn]] void refuse(const Path& path, std::uint64_t size, std::uint64_t most) {
  throw Error(ErrorCode::kInvalidArgument, path, " has ", base::human_bytes(size),
              "; such a file has at most ", base::human_bytes(most), ": is it the right one?");
}

}  // namespace

void FileSystem::create_directory(const Path& directory) {
  if (entry(directory)) {
    throw Error(ErrorCode::kAlreadyExists, "cannot create folder ", directory,
                ": it exists already");
  }
  if (directory.has_parent_path() && !is_folder(info(directory.parent_path()))) {
    throw Error(ErrorCode::kNotFound, "cannot create folder ", directory,
                ": its parent folder does not exist");
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
  throw Error(ErrorCode::kNotFound, "there is no folder ", directory);
}

std::string read_at_most(const FileSystem& files, const Path& path, std::uint64_t most) {
  const auto file = files.open(path);
  const auto info = files.info(path);
  const std::uint64_t size = info ? info->size : 0;
  if (size > most) refuse(path, size, most);
  // Files of /proc report a size of 0 bytes.
  constexpr std::uint64_t kFirstPiece = 4096;
  std::string content;
  std::size_t filled = 0;
  do {
    const std::uint64_t room = std::max({size, kFirstPiece, 2 * std::uint64_t{filled}});
    content.resize(std::min(room, most) +
                   1);  // one more byte detects the end, and an oversized file
    filled += file->read(std::as_writable_bytes(std::span(content).subspan(filled)));
    if (filled > most) refuse(path, filled, most);
  } while (filled == content.size());
  content.resize(filled);
  return content;
}

}  // namespace brigade::io
